"""The pages behind an agent's buttons."""

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.timesince import timesince
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from hookgate.catalogue import CATALOGUE
from hookgate.registry.manifest import SURFACES
from unfold.widgets import UnfoldAdminIntegerFieldWidget, UnfoldAdminTextInputWidget, UnfoldBooleanWidget

from hooks_app import switches
from hooks_app.admin import drafts
from hooks_app.confirmations import turned_away
from hooks_app.governance import restoring
from hooks_app.models import Agent, RegistryHead, RegistryRevision
from hooks_app.registry import fleet, heads, manifests, publishing, runtimes
from portal.admin import changes, operations, showing
from portal.admin.operations import Operation
from portal.audit import Actor
from portal.lib import clock, visible
from portal.lib.problems import Problem, ProblemField
from portal.models import User

REVISIONS = 20


class PublishForm(forms.Form):
    """Why."""

    comment = forms.CharField(
        label=_("Comment"),
        required=False,
        max_length=500,
        widget=UnfoldAdminTextInputWidget,
        help_text=_("Kept with the revision, for those who read its history."),
    )


class RollbackForm(PublishForm):
    """Which revision."""

    number = forms.IntegerField(label=_("Revision"), min_value=1, widget=UnfoldAdminIntegerFieldWidget)
    restore = forms.BooleanField(
        label=_("Make the draft the same"),
        required=False,
        initial=True,
        widget=UnfoldBooleanWidget,
        help_text=_(
            "Otherwise the draft keeps what is rolled back, and the next publication brings it back."
        ),
    )
    field_order = ("number", "restore", "comment")


def state(agent: Agent) -> dict[str, Any]:
    """What the top of an agent's page says: ``agent_state`` with what holds, the draft, errors, runtimes, revisions."""
    head = _head(agent)
    judged = drafts.judge(agent)
    return {
        "agent_state": {
            "agent": agent,
            "revision": head.revision if head else None,
            "errors": head.errors if head else [],
            "is_published": head is not None,
            "is_dirty": publishing.is_dirty(agent),
            "draft_errors": [error.to_json() for error in judged.errors],
            "draft_warnings": [item.to_json() for item in judged.findings.warnings],
            "warnings": head.warnings if head else [],
            "halt": switches.state(agent, agent.organization),
            "turned_away": _turned_away(agent),
            "runtimes": _runtimes(agent, head),
            "revisions": _revisions(agent),
        }
    }


def _head(agent: Agent) -> RegistryHead | None:
    try:
        return heads.head(agent)
    except Problem:
        return None


def _turned_away(agent: Agent) -> dict[str, Any] | None:
    found = turned_away.of_agent(agent)
    if found is None:
        return None
    return {
        "count": found.count,
        "allowed": found.allowed,
        "first": showing.at(found.first_at, agent.organization),
        "last": showing.at(found.last_at, agent.organization),
    }


_RUNTIME_STATES = {"live": _("live"), "behind": _("behind"), "gone": _("gone")}


def _runtimes(agent: Agent, head: RegistryHead | None) -> list[dict[str, Any]]:
    newest = head.revision.number if head and head.revision else None
    return [
        {
            "name": visible.line(row.name),
            "surface": row.surface,
            "revision": row.revision,
            "state": (state := fleet.runtime_state(row, agent, newest)),
            "word": _RUNTIME_STATES[state],
            "seen": showing.at(row.last_seen_at, agent.organization),
            "ago": timesince(row.last_seen_at, clock.now()).replace("\xa0", " "),
            "tools": row.tool_count,
        }
        for row in runtimes.of(agent)[:REVISIONS]
    ]


def _revisions(agent: Agent) -> list[dict[str, Any]]:
    rows = RegistryRevision.objects.filter(agent=agent).defer("manifest")[:REVISIONS]
    return [
        {
            "pk": row.pk,
            "number": row.number,
            "at": showing.at(row.created_at, agent.organization),
            "author": row.author_name,
            "comment": row.comment,
            "digest": row.digest,
        }
        for row in rows
    ]


def publish(screen: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    """Show what changes, ask for a comment, publish."""
    agent = screen.get_object(request, object_id)

    def perform(row: Agent, data: dict[str, Any]) -> str:
        publishing.publish(agent=row, comment=data["comment"], **_by(request))
        return gettext("Published. Runtimes have it within seconds.")

    judged = drafts.judge(agent) if agent is not None else None
    errors = [error.to_json() for error in judged.errors] if judged else []
    warnings = [item.to_json() for item in judged.findings.warnings] if judged else []
    return operations.run(
        screen,
        request,
        object_id,
        Operation(
            title=_("Publish the draft"),
            text=_("From now on this is what every runtime of the agent is served."),
            button=_("Publish"),
            form=PublishForm,
            danger=bool(errors),
            perform=perform,
            template="admin/hooks_app/agent/publish.html",
            context={
                "difference": drafts.difference(agent) if agent is not None else [],
                "errors": errors,
                "warnings": warnings,
            },
        ),
    )


def rollback(screen: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    """Publish the content of an earlier revision again."""

    def perform(row: Agent, data: dict[str, Any]) -> str:
        try:
            publishing.rollback(agent=row, number=data["number"], comment=data["comment"], **_by(request))
        except Problem as problem:
            if problem.status != 404:
                raise
            raise Problem(404, "not_found", gettext("The agent has no revision of this number.")) from problem
        text = gettext("Revision %(number)d holds again, under a new number.") % data
        return f"{text} {_after_rollback(row, restored=data['restore'], actor=changes.actor(request))}"

    class Chosen(RollbackForm):
        """The revision whose button was pressed."""

    wanted = request.GET.get("number", "")
    Chosen.base_fields["number"].initial = int(wanted) if wanted.isdecimal() and len(wanted) < 10 else None
    return operations.run(
        screen,
        request,
        object_id,
        Operation(
            title=_("Roll back"),
            text=_(
                "What the revision was built from is published again. Connectors, policies and channels stay."
            ),
            button=_("Roll back"),
            form=Chosen,
            danger=True,
            perform=perform,
        ),
    )


def _after_rollback(agent: Agent, *, restored: bool, actor: Actor) -> str:
    """Make the draft the same if that is wished; what to know of it, in words."""
    if restored:
        content = RegistryHead.objects.select_related("publication").get(agent=agent).publication.content
        missing = restoring.restore(agent, content, actor=actor)
        if missing:
            return gettext("So does the draft, but for channels that are gone: %(names)s.") % {
                "names": ", ".join(missing)
            }
        return gettext("The draft is the same now.")
    if publishing.is_dirty(Agent.objects.get(pk=agent.pk)):
        return gettext("The draft still differs: publishing it brings back what was rolled back.")
    return gettext("The draft is the same.")


def _by(request: HttpRequest) -> dict[str, Any]:
    assert isinstance(request.user, User)
    return {"actor": changes.actor(request), "user": request.user}


def registry_page(screen: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    """The manifest per surface, of what is published and of the draft; every reason where there is none."""
    agent = screen.get_object(request, object_id)
    surface = request.GET.get("surface", "chat")
    surface = surface if surface in SURFACES else "chat"
    of_draft = request.GET.get("of") == "draft"
    manifest, errors = _drafted(agent) if of_draft else _served(agent)
    shown = None
    if manifest is not None:
        shown = manifests.document(manifest, surface=surface, state=switches.state(agent, agent.organization))
    return TemplateResponse(
        request,
        "admin/hooks_app/agent/registry.html",
        {
            **screen.admin_site.each_context(request),
            "opts": screen.opts,
            "title": _("Registry of %(agent)s") % {"agent": agent.slug},
            "original": agent,
            "surface": surface,
            "surfaces": sorted(SURFACES),
            "of_draft": of_draft,
            "errors": errors,
            "digest": shown["digest"] if shown else "",
            "manifest": showing.pretty(shown) if shown else "",
            "back": reverse("admin:hooks_app_agent_change", args=[agent.pk]),
        },
    )


def _drafted(agent: Agent) -> tuple[Any, list[ProblemField]]:
    judged = drafts.judge(agent)
    return judged.built.manifest, [error.to_json() for error in judged.built.errors]


def _served(agent: Agent) -> tuple[Any, list[ProblemField]]:
    head = _head(agent)
    if head is None:
        return None, [
            {"path": "agent", "code": "not_published", "message": gettext("The agent was never published.")}
        ]
    return (head.revision.manifest if head.revision and not head.errors else None), head.errors


def choose_hook(screen: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    """The catalogue, each entry a link to its form."""
    agent = screen.get_object(request, object_id)
    url = reverse("admin:hooks_app_declaration_add")
    entries = [
        {
            "name": entry.name,
            "summary": entry.summary,
            "points": ", ".join(point.value for point in entry.points),
            "attached": entry.attached,
            "url": f"{url}?agent={agent.pk}&hook={entry.name}",
        }
        for entry in CATALOGUE.values()
    ]
    return TemplateResponse(
        request,
        "admin/hooks_app/agent/choose_hook.html",
        {
            **screen.admin_site.each_context(request),
            "opts": screen.opts,
            "title": _("Which hook?"),
            "original": agent,
            "entries": entries,
            "handler_url": f"{url}?agent={agent.pk}",
            "back": reverse("admin:hooks_app_agent_change", args=[agent.pk]),
        },
    )
