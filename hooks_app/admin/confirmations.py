"""Confirmation requests, for reading: who decided, when, where, and what became of it."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.decorators import display

from channels_app.models import Delivery
from hooks_app import digests
from hooks_app.confirmations import appearance, approval_cards, rows
from hooks_app.models import ConfirmationRequest, ConnectorCallLog, Decision, Stage
from portal.admin import showing
from portal.admin.scoping import RecordAdmin, ScopedTabular
from portal.admin.showing import Word
from portal.admin.site import site
from portal.lib import visible


class StageInline(ScopedTabular):
    """The steps of the approval."""

    model = Stage
    fields = ("number", "name", "scope", "quorum", "reject_quorum", "status", "opened", "ended")
    readonly_fields = fields
    verbose_name_plural = _("stages")
    hide_title = True

    @admin.display(description=_("opened at"))
    def opened(self, row: Stage) -> str:
        """When its people were asked."""
        return showing.at(row.opened_at, row.request.organization)

    @admin.display(description=_("ended at"))
    def ended(self, row: Stage) -> str:
        """When it was settled."""
        return showing.at(row.ended_at, row.request.organization)


class DecisionInline(ScopedTabular):
    """Who decided, when and where."""

    model = Decision
    fields = ("who", "decision", "counts", "place", "reason", "time")
    readonly_fields = fields
    verbose_name_plural = _("decisions")
    hide_title = True

    @admin.display(description=_("time"))
    def time(self, row: Decision) -> str:
        """In the organization's zone."""
        return showing.at(row.at, row.request.organization)

    @admin.display(description=_("who"))
    def who(self, row: Decision) -> str:
        """The person, or the account that tapped."""
        return approval_cards.name_of(row)

    @admin.display(description=_("where"))
    def place(self, row: Decision) -> str:
        """The chat, or the portal itself."""
        facts = row.identity_facts
        if not facts:
            return gettext("inbox or API")
        return visible.line(f"{facts['channel']} · {facts['external_id']}")


@admin.register(ConfirmationRequest, site=site)
class ConfirmationRequestAdmin(RecordAdmin):
    """The record of a request. Nothing is decided here: the inbox and the chat are for that."""

    kind = "confirmation"
    title = _("Confirmation requests")
    about = _("What was asked, who decided, what ran")
    section = "records"
    place = 10
    icon = "approval"
    spoken = ("reason",)
    heavy = ("args", "approved_args", "excerpt", "redact", "policy", "summary", "reason", "outcome_detail")
    list_display = (
        "created",
        "tool_name",
        "agent",
        "badge",
        "initiator_name",
        "outcome_badge",
        "organization",
    )
    list_filter = (
        "status",
        ("organization", admin.RelatedOnlyFieldListFilter),
        ("agent", admin.RelatedOnlyFieldListFilter),
        "outcome",
        "mode",
        "created_at",
    )
    search_fields = ("tool_name", "conversation_id", "tool_call_id", "runtime", "agent__slug")
    list_select_related = ("organization", "agent")
    date_hierarchy = "created_at"
    fieldsets = (
        (
            None,
            {"fields": ("badge", "tool_name", "agent", "organization", "arguments", "approved_arguments")},
        ),
        (
            _("Who asked"),
            {"fields": ("initiator_name", "runtime", "conversation_id", "tool_call_id", "summary")},
        ),
        (_("Rules"), {"classes": ("collapse",), "fields": ("mode", "hook", "policy_text", "revision")}),
        (_("Course"), {"fields": ("created", "expires", "ended", "reason", "refused_by", "cards")}),
        (
            _("Execution"),
            {
                "fields": (
                    "start_by_time",
                    "consumed",
                    "attempt",
                    "outcome_badge",
                    "outcome_detail",
                    "outcome_time",
                    "calls",
                )
            },
        ),
        (
            _("Digests"),
            {"classes": ("collapse",), "fields": ("args_tag", "requested", "to_run", "registry_digest")},
        ),
    )
    inlines = (DecisionInline, StageInline)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return [name for _title, options in self.fieldsets for name in options["fields"]]

    @display(description=_("status"), ordering="status", label=showing.STATUS_COLOURS)
    def badge(self, row: ConfirmationRequest) -> Word:
        """As it reads now."""
        status = appearance.status_now(row)
        return Word(status, dict(ConfirmationRequest.Status.choices)[status])

    @display(description=_("outcome"), ordering="outcome", label=showing.STATUS_COLOURS)
    def outcome_badge(self, row: ConfirmationRequest) -> Word | None:
        """What became of the call."""
        return Word(row.outcome, row.get_outcome_display()) if row.outcome else None

    @admin.display(description=_("asked for"))
    def initiator_name(self, row: ConfirmationRequest) -> str:
        """The person for whom the agent acts."""
        return showing.person(row.initiator)

    @admin.display(description=_("tag of the arguments"))
    def args_tag(self, row: ConfirmationRequest) -> str:
        """The same tag, the same arguments."""
        return digests.tag(row.organization_id, row.args_digest)

    @admin.display(description=_("digest as asked"))
    def requested(self, row: ConfirmationRequest) -> str:
        """Nothing where a part is hidden: it would tell what."""
        return "–" if row.is_redacted else row.requested_digest

    @admin.display(description=_("digest that may run"))
    def to_run(self, row: ConfirmationRequest) -> str:
        """Likewise."""
        return "–" if row.is_redacted else row.args_digest

    @admin.display(description=_("arguments (redacted)"))
    def arguments(self, row: ConfirmationRequest) -> SafeString:
        """What was asked."""
        return showing.pretty(appearance.redacted(row, row.args))

    @admin.display(description=_("approved arguments"))
    def approved_arguments(self, row: ConfirmationRequest) -> Any:
        """What may run, where an approver changed it."""
        return (
            "–" if row.approved_args is None else showing.pretty(appearance.redacted(row, row.approved_args))
        )

    @admin.display(description=_("policy"))
    def policy_text(self, row: ConfirmationRequest) -> SafeString:
        """As it was when the request was made."""
        return showing.pretty(row.policy)

    @admin.display(description=_("registry"))
    def revision(self, row: ConfirmationRequest) -> Any:
        """Which rules the runtime held."""
        found = row.agent.revisions.filter(digest=row.registry_digest).order_by("-number").first()
        if found is None:
            return "–"
        url = reverse("admin:hooks_app_registryrevision_change", args=[found.pk])
        return format_html(
            '<a class="hookgate-link" href="{}">{}</a>',
            url,
            gettext("revision %(number)d") % {"number": found.number},
        )

    @admin.display(description=_("deliveries"))
    def cards(self, row: ConfirmationRequest) -> Any:
        """Where the cards went."""
        found = (
            Delivery.objects.filter(topic=rows.topic(row.pk))
            .select_related("channel")
            .only("status", "channel__slug")
        )
        return _links(
            "admin:channels_app_delivery_change",
            [(d.pk, f"{d.channel.slug}: {d.get_status_display()}") for d in found],
        )

    @admin.display(description=_("call log"))
    def calls(self, row: ConfirmationRequest) -> Any:
        """What the runtime reported of it."""
        found = ConnectorCallLog.objects.filter(organization=row.organization, confirmation_id=row.pk)
        return _links(
            "admin:hooks_app_connectorcalllog_change", [(c.pk, c.get_status_display()) for c in found]
        )

    @admin.display(description=_("created at"), ordering="created_at")
    def created(self, row: ConfirmationRequest) -> str:
        """In the organization's zone."""
        return showing.at(row.created_at, row.organization)

    @admin.display(description=_("decide by"))
    def expires(self, row: ConfirmationRequest) -> str:
        """The deadline."""
        return showing.at(row.expires_at, row.organization)

    @admin.display(description=_("ended at"))
    def ended(self, row: ConfirmationRequest) -> str:
        """When it was settled."""
        return showing.at(row.ended_at, row.organization)

    @admin.display(description=_("start by"))
    def start_by_time(self, row: ConfirmationRequest) -> str:
        """Until when the approval can be used."""
        return showing.at(row.start_by, row.organization)

    @admin.display(description=_("consumed at"))
    def consumed(self, row: ConfirmationRequest) -> str:
        """When the runtime used it."""
        return showing.at(row.consumed_at, row.organization)

    @admin.display(description=_("outcome at"))
    def outcome_time(self, row: ConfirmationRequest) -> str:
        """When the runtime reported."""
        return showing.at(row.outcome_at, row.organization)


def _links(name: str, found: list[tuple[Any, str]]) -> Any:
    links = [(reverse(name, args=[pk]), text) for pk, text in found]
    return format_html_join(", ", '<a class="hookgate-link" href="{}">{}</a>', links) or "–"
