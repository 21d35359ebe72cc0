"""Connectors and their actions: what the tools of an organization are."""

import re
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from django.utils.translation import gettext_lazy as _

from hooks_app import json_schemas
from portal.lib import ids

# A tool is named CONNECTOR__ACTION, so a connector's name holds no double underscore.
CONNECTOR_PATTERN = r"^(?!.*__)[A-Za-z0-9][A-Za-z0-9_.-]{0,63}(?<!_)$"
ACTION_PATTERN = r"^(\*|[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127})$"


def validate_connector(value: str) -> None:
    """The part of a tool's name before the first ``__``. Raises ``ValidationError``."""
    if not re.fullmatch(CONNECTOR_PATTERN, value):
        raise ValidationError(
            _("Use 1 to 64 letters, digits and _ . -, no __ and none of _ at the end."), code="invalid"
        )


def validate_action(value: str) -> None:
    """The rest of a tool's name, or a whole one, or ``*``. Raises ``ValidationError``."""
    if not re.fullmatch(ACTION_PATTERN, value):
        raise ValidationError(_("Use * or at most 128 letters, digits and _ . : / -."), code="invalid")


class ToolFacts(models.Model):
    """What the gate must know of a tool, whoever names it."""

    name = models.CharField(max_length=128, validators=[validate_action])
    description = models.TextField(blank=True)
    writes = models.BooleanField(
        default=True, help_text=_("Changes something outside; stopped by read-only mode.")
    )
    requires_confirmation = models.BooleanField(default=False)
    policy = models.CharField(max_length=64, null=True, blank=True)  # noqa: DJ001  # null: the agent's policy holds
    redact: Any = models.JSONField(default=list, blank=True)
    schema: Any = models.JSONField(null=True, blank=True, validators=[json_schemas.validate])

    class Meta:
        abstract = True


class Connector(models.Model):
    """A system that tools act on. Its slug is the part of a tool's name before the first ``__``."""

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    organization = models.ForeignKey(
        "portal.Organization", on_delete=models.CASCADE, related_name="connectors"
    )
    slug = models.CharField(max_length=64, validators=[validate_connector])

    class Meta:
        ordering = ["slug"]
        constraints = [
            models.UniqueConstraint(
                fields=["organization", "slug"], name="connector_slug_unique_in_organization"
            )
        ]

    def __str__(self) -> str:
        return self.slug


class Action(ToolFacts):
    """One action of a connector; the name ``*`` covers the actions that have no row of their own."""

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    connector = models.ForeignKey(Connector, on_delete=models.CASCADE, related_name="actions")
    position = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["position", "name"]
        constraints = [
            models.UniqueConstraint(fields=["connector", "name"], name="action_unique_in_connector")
        ]

    def __str__(self) -> str:
        return f"{self.connector.slug}__{self.name}"
