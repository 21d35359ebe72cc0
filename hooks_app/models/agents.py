"""Agents and their drafts.

The rows here are what an admin edits: an agent's *draft*. What runtimes are served is built from the newest
:class:`hooks_app.models.Publication`, a frozen copy of the draft. ``enabled``, ``halted``, ``owner``, ``name`` and
``protected`` are no part of the draft: they hold at once.
"""

from typing import Any

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from channels_app.models import Channel
from hooks_app.models.connectors import ToolFacts
from portal.lib import ids
from portal.models.organizations import validate_slug


class Agent(models.Model):
    """An LLM program with its own hooks."""

    class Mode(models.TextChoices):
        AUTO = "auto", _("cards, inbox and API")
        CHANNEL_ONLY = "channel_only", _("only a tap on a card")
        INLINE_ONLY = "inline_only", _("only inbox and API")

    class Unlisted(models.TextChoices):
        ALLOW = "allow", _("allow")
        CONFIRM = "confirm", _("ask")
        DENY = "deny", _("deny")

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    organization = models.ForeignKey("portal.Organization", on_delete=models.CASCADE, related_name="agents")
    slug = models.CharField(max_length=64, validators=[validate_slug])
    name = models.CharField(max_length=200)
    enabled = models.BooleanField(default=True)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="agents"
    )
    halted = models.BooleanField(default=False)
    halt_reason = models.CharField(max_length=500, blank=True)
    halt_until = models.DateTimeField(null=True, blank=True)
    protected = models.BooleanField(default=False)
    confirmation_mode = models.CharField(max_length=16, choices=Mode.choices, default=Mode.AUTO)
    approval_channels: Any = models.ManyToManyField(
        Channel, through="ApprovalChannel", related_name="+", blank=True
    )
    fallback_channels: Any = models.ManyToManyField(
        Channel, through="FallbackChannel", related_name="+", blank=True
    )
    require_confirmation_for_all = models.BooleanField(default=False)
    approval_policy = models.CharField(max_length=64, null=True, blank=True)  # noqa: DJ001  # null: the organization's
    unlisted_tools = models.CharField(max_length=8, choices=Unlisted.choices, default=Unlisted.CONFIRM)
    may_delegate_to: Any = models.JSONField(default=list, blank=True)
    max_pending = models.PositiveIntegerField(
        default=20, validators=[MinValueValidator(1), MaxValueValidator(10000)]
    )
    barrier = models.CharField(max_length=8, choices=[("call", _("call")), ("run", _("run"))], default="call")
    revalidate_after_seconds = models.PositiveIntegerField(
        null=True, blank=True, validators=[MinValueValidator(1), MaxValueValidator(3600)]
    )
    max_stale_seconds = models.PositiveIntegerField(
        null=True, blank=True, validators=[MinValueValidator(15), MaxValueValidator(86400)]
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["slug"]
        constraints = [
            models.UniqueConstraint(
                fields=["organization", "slug"], name="agent_slug_unique_in_organization"
            ),
            models.CheckConstraint(
                condition=Q(confirmation_mode__in=["auto", "channel_only", "inline_only"]),
                name="agent_mode_known",
            ),
            models.CheckConstraint(
                condition=Q(unlisted_tools__in=["allow", "confirm", "deny"]),
                name="agent_unlisted_tools_known",
            ),
        ]

    def __str__(self) -> str:
        return self.slug


class ApprovalChannel(models.Model):
    """A channel that an agent's cards go to, in order."""

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="approval_channel_rows")
    channel = models.ForeignKey(Channel, on_delete=models.PROTECT, related_name="+")
    position = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["position", "id"]
        constraints = [models.UniqueConstraint(fields=["agent", "channel"], name="approval_channel_once")]


class FallbackChannel(models.Model):
    """A channel that is used when none of the approval channels can be reached, in order."""

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="fallback_channel_rows")
    channel = models.ForeignKey(Channel, on_delete=models.PROTECT, related_name="+")
    position = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["position", "id"]
        constraints = [models.UniqueConstraint(fields=["agent", "channel"], name="fallback_channel_once")]


class AgentTool(ToolFacts):
    """A tool of one agent that belongs to no connector."""

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="tools")
    position = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["position", "name"]
        constraints = [models.UniqueConstraint(fields=["agent", "name"], name="tool_unique_in_agent")]

    def __str__(self) -> str:
        return self.name


class Declaration(models.Model):
    """One hook that an agent declares: an entry of ``class_hooks``, or one handler of ``events``.

    For ``class_hooks`` the columns are the entry's keys. For ``events``, ``event``, ``matcher``, ``group_index`` and
    ``handler`` (the handler object as written) say where it stands in the hooks.json shape.
    """

    class Source(models.TextChoices):
        CLASS_HOOKS = "class_hooks", _("built-in hook")
        EVENTS = "events", _("own handler")

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="declarations")
    source = models.CharField(max_length=16, choices=Source.choices, default=Source.CLASS_HOOKS)
    position = models.PositiveIntegerField(default=0)
    name = models.CharField(max_length=64, blank=True)
    tool_filter = models.CharField(max_length=300, null=True, blank=True)  # noqa: DJ001  # null: not declared
    when = models.TextField(null=True, blank=True)  # noqa: DJ001
    priority = models.IntegerField(null=True, blank=True)
    on_error = models.CharField(  # noqa: DJ001
        max_length=8, null=True, blank=True, choices=[("deny", _("deny")), ("allow", _("allow"))]
    )
    timeout_seconds = models.FloatField(null=True, blank=True)
    enabled = models.BooleanField(default=True)
    mode = models.CharField(
        max_length=8, choices=[("enforce", _("enforce")), ("observe", _("observe"))], default="enforce"
    )
    params: Any = models.JSONField(default=dict, blank=True)
    # A gate entry whose filter matches no known tool is meant so; no part of the manifest.
    allow_unmatched = models.BooleanField(default=False)
    event = models.CharField(max_length=32, blank=True)
    group_index = models.PositiveIntegerField(default=0)
    matcher = models.CharField(max_length=500, null=True, blank=True)  # noqa: DJ001
    handler: Any = models.JSONField(null=True, blank=True)

    class Meta:
        ordering = ["position", "id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(source__in=["class_hooks", "events"]), name="declaration_source_known"
            ),
            models.CheckConstraint(
                condition=Q(mode__in=["enforce", "observe"]), name="declaration_mode_known"
            ),
            models.CheckConstraint(
                condition=(Q(source="class_hooks") & ~Q(name="") & Q(event="", handler__isnull=True))
                | (Q(source="events", name="", handler__isnull=False) & ~Q(event="")),
                name="declaration_is_one_or_the_other",
            ),
        ]

    def __str__(self) -> str:
        return self.name or self.event
