"""The card of a request: what people in a chat see of it, in the channel's language.

Everything that an agent, a model or a person wrote is data: control and bidirectional characters are shown as escapes,
and in one-line places line breaks too, so that a value can't pass for another line of the card.
"""

from datetime import datetime
from zoneinfo import ZoneInfo

from django.utils import translation
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from channels_app.cards import Button, Card, Field, Reason, Tone
from hooks_app import excerpts
from hooks_app.approvers import words
from hooks_app.approvers.eligibility import current_stage
from hooks_app.confirmations import appearance
from hooks_app.models import ConfirmationRequest, Decision
from hooks_app.models.policies import Scope
from portal.lib import visible
from portal.lib.visible import line

# What a card's reason field takes; longer ones fit in the inbox.
MAX_REASON = 500

_TITLES: dict[str, tuple[Promise, Tone]] = {
    "pending": (gettext_lazy("Approval needed"), Tone.PENDING),
    "approved": (gettext_lazy("Approved"), Tone.APPROVED),
    "rejected": (gettext_lazy("Rejected"), Tone.REJECTED),
    "expired": (gettext_lazy("Expired: nobody decided in time"), Tone.ENDED),
    "cancelled": (gettext_lazy("Cancelled by the agent"), Tone.ENDED),
    "undeliverable": (gettext_lazy("Not delivered"), Tone.ENDED),
}


def build(request: ConfirmationRequest, *, language: str, votes: list[Decision] | None = None) -> Card:
    """The card of ``request`` as it stands now, its ``votes`` read if need be. Only a pending one has buttons.

    Approve needs the whole body: an adapter that can't show all arguments takes it away.
    """
    with translation.override(language):
        status = appearance.status_now(request)
        title, tone = _TITLES[status]
        votes = appearance.votes(request) if votes is None else votes
        pending = status == ConfirmationRequest.Status.PENDING
        body = arguments(request)
        fields = (*_facts(request, pending, votes), *(_vote(request, vote) for vote in votes))
        return Card(
            title=str(title),
            tone=tone,
            summary=_sentence(request, status, votes),
            fields=(*fields, *_caution(body, *(field.text for field in fields))),
            body_label=_("Arguments"),
            body=body,
            cut_notice=_("… The arguments are too long for this card. Open the full request to approve it."),
            buttons=_buttons() if pending else (),
            reason=_reason(request) if pending else None,
            link_label=_("Open the full request"),
            link_url=appearance.url(request),
        )


def outline(request: ConfirmationRequest, *, language: str) -> Card:
    """What a list shows of ``request``: title, sentence and who it is for, without its arguments."""
    with translation.override(language):
        status = appearance.status_now(request)
        title, tone = _TITLES[status]
        return Card(
            title=str(title),
            tone=tone,
            summary=_sentence(request, status, list(request.decisions.all())),
            fields=(Field(_("Requested for"), _initiator(request)),),
        )


def arguments(request: ConfirmationRequest) -> str:
    """The redacted arguments as indented JSON that hides nothing else from a reader."""
    shown = request.args if request.approved_args is None else request.approved_args
    return visible.dump(appearance.redacted(request, shown))


def excerpt(request: ConfirmationRequest) -> str:
    """The beginning of the arguments, on one line."""
    text = request.excerpt or ""
    return line(text) + ("…" if len(text) == excerpts.LENGTH else "")


def name_of(decision: Decision) -> str:
    """How people know whoever decided: the portal user, else the account that tapped."""
    if decision.user is not None:
        return line(decision.user.display_name)
    facts = decision.identity_facts or {}
    return line(facts.get("name") or facts.get("external_id") or "")


def at(request: ConfirmationRequest, moment: datetime) -> str:
    """A time as the request's organization reads it, its zone named."""
    zone = request.organization.time_zone
    return f"{moment.astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M:%S} ({zone})"


def _sentence(request: ConfirmationRequest, status: str, votes: list[Decision]) -> str:
    """The portal's own words: what is asked, or how it ended, by whom and when."""
    names = {"agent": line(request.agent.name or request.agent.slug), "tool": line(request.tool_name)}
    if status == "pending":
        return _("%(agent)s wants to run %(tool)s.") % names
    ended = request.ended_at or request.expires_at
    deciding = [vote for vote in votes if vote.counts and vote.decision == _DECIDES.get(status)]
    values = {**names, "who": ", ".join(map(name_of, deciding)), "when": at(request, ended)}
    if status == "approved":
        return _("%(tool)s was approved by %(who)s at %(when)s.") % values
    if status == "rejected":
        return _("%(tool)s was rejected by %(who)s at %(when)s. It does not run.") % values
    return _("%(tool)s does not run. The request ended at %(when)s.") % values


_DECIDES = {"approved": "approve", "rejected": "reject"}


def _facts(request: ConfirmationRequest, pending: bool, votes: list[Decision]) -> tuple[Field, ...]:
    facts = [
        Field(_("Tool"), line(request.tool_name)),
        Field(_("Agent"), line(f"{request.agent.name} ({request.agent.slug})")),
        Field(_("Organization"), line(request.organization.name)),
        Field(_("Requested for"), _initiator(request)),
        Field(_("Conversation"), line(request.conversation_id)),
    ]
    if request.summary:
        facts.append(Field(_("The agent says"), line(request.summary)))
    if pending:
        facts.append(Field(_("Decide by"), at(request, request.expires_at)))
    facts.append(Field(_("Policy"), _policy(request, pending, votes)))
    return tuple(facts)


def _caution(*texts: str) -> tuple[Field, ...]:
    """What the mark means, where it stands."""
    if not any(visible.WARNING in text for text in texts):
        return ()
    text = _("A word after %(mark)s mixes letters of several scripts: it may not be the word it looks like.")
    return (Field(_("Caution"), text % {"mark": visible.WARNING}),)


def _initiator(request: ConfirmationRequest) -> str:
    facts = request.initiator
    if not facts:
        return _("nobody named")
    more = [text for text in (facts.get("email"), facts["id"]) if text and text != facts.get("name")]
    name = facts.get("name") or more.pop(0)
    shown = line(f"{name} ({', '.join(more)})" if more else name)
    if request.initiator_user_id is None:
        # Nobody knows whether one of those who may approve is this person.
        shown += " · " + _("not known to the portal")
    return shown


def _policy(request: ConfirmationRequest, pending: bool, votes: list[Decision]) -> str:
    stage = current_stage(request)
    who = str(words.WHO[stage.scope])
    if stage.scope == Scope.GROUP:
        who %= {"group": request.policy["group"]}
    text = _("%(policy)s: %(who)s") % {"policy": request.policy["slug"], "who": who}
    if stage.quorum > 1:
        done = sum(vote.counts and vote.decision == "approve" for vote in votes)
        counted = _("%(done)d of %(needed)d approvals") if pending else _("%(needed)d approvals needed")
        text += f" · {counted % {'done': done, 'needed': stage.quorum}}"
    return text


def _vote(request: ConfirmationRequest, vote: Decision) -> Field:
    label = _("Approved by") if vote.decision == "approve" else _("Rejected by")
    text = f"{name_of(vote)} · {at(request, vote.at)}"
    if not vote.counts:
        text += " · " + _("doesn't count any more")
    if vote.reason:
        text += " · " + _("reason: %(reason)s") % {"reason": line(vote.reason)}
    return Field(label, text)


def _buttons() -> tuple[Button, ...]:
    return (
        Button("approve", _("Approve"), "primary", needs_whole_body=True),
        Button("reject", _("Reject"), "danger", with_reason=True),
    )


def _reason(request: ConfirmationRequest) -> Reason:
    required = bool(request.policy["require_reject_reason"])
    label = _("Reason, needed to reject") if required else _("Reason for rejecting (optional)")
    return Reason(label, required=required, max_length=MAX_REASON)
