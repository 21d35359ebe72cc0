"""From a name in a request to the row, or 404: the only way the API finds anything.

What does not exist and what lies outside the caller's reach are one and the same answer.
"""

import re
from functools import cache
from uuid import UUID

from django.db.models import Q, QuerySet

from channels_app.models import Channel
from hooks_app import confirmations
from hooks_app.api import permits
from hooks_app.api.authentication import Caller, PersonCaller, RuntimeCaller
from hooks_app.api.permits import Permit
from hooks_app.approvers import eligibility
from hooks_app.approvers.scopes import NOBODY
from hooks_app.confirmations.resources import Confirmation
from hooks_app.confirmations.rows import Reach
from hooks_app.models import Agent, ConfirmationRequest, RegistryHead
from hooks_app.registry import heads
from portal import access
from portal.lib import ids
from portal.lib.composed import Composed, Parameter
from portal.lib.problems import FieldError, invalid, not_found
from portal.models.organizations import SLUG_PATTERN

EVERYBODY = access.EVERYBODY
READ_CONFIRMATIONS = Permit(runtime="confirmations", person="read")


def _parse(reference: str) -> UUID | None:
    """The id that ``reference`` spells in the one form that we print, in either case."""
    found = ids.parse(reference)
    return found if found is not None and str(found) == reference.lower() else None


def _slug(reference: str) -> str | None:
    """``reference`` where it may be a slug: a database is asked for no other text."""
    return reference if re.fullmatch(SLUG_PATTERN, reference) else None


def uuid(reference: str) -> UUID:
    """The id in a path. Raises 404 ``not_found`` for anything that is none."""
    found = _parse(reference)
    if found is None:
        raise not_found()
    return found


def agents(caller: Caller, *roles: str) -> QuerySet[Agent]:
    """The agents that ``caller`` reaches; a person's are those of organizations where they have one of ``roles``."""
    rows = Agent.objects.select_related("organization")
    if isinstance(caller, RuntimeCaller):
        return access.rows_of_key(
            rows, organization_id=caller.organization_id, agent_id=caller.agent_id, agent_path="pk"
        )
    return access.rows(rows, caller.user, *roles)


def agent(caller: Caller, reference: str, *roles: str) -> Agent:
    """The agent that a slug or an id names.

    Raises 404 ``not_found``, and 400 when a person's organizations have several agents of that slug.
    """
    slug, pk = _slug(reference), _parse(reference)
    wanted = Q(slug=slug) if slug else Q(pk__in=[])
    if pk is not None:
        wanted |= Q(pk=pk)
    found = list(agents(caller, *(roles or access.READERS)).filter(wanted)[:20])
    by_id = [row for row in found if row.pk == pk]
    if len(found) > 1 and not by_id:
        raise invalid(
            FieldError(
                "agent", "ambiguous", f"several of your organizations have an agent {reference!r}; use its id"
            )
        )
    if not found:
        raise not_found()
    return (by_id or found)[0]


def governed(caller: Caller, reference: str) -> tuple[Agent, RegistryHead | None]:
    """As :func:`agent`, with the agent's registry head in the same statement, for what its registry governs. ``None``
    for a person, and for an agent that was never published. Raises 404 ``not_found``."""
    if isinstance(caller, RuntimeCaller):
        slug, pk = _slug(reference), _parse(reference)
        found = _governed(of_agent=caller.agent_id is not None).rows(
            organization=caller.organization_id, agent=caller.agent_id, slug=slug or "", id=pk or NOBODY
        )
        by_id = [head for head in found if head.agent_id == pk]
        for head in by_id or found:
            return head.agent, head
    return agent(caller, reference), None


@cache
def _governed(*, of_agent: bool) -> Composed[RegistryHead]:
    named = Q(agent__slug=Parameter("slug")) | Q(agent=Parameter("id"))
    rows = access.rows_of_key(
        heads.heads().filter(named),
        organization_id=Parameter("organization"),
        agent_id=Parameter("agent") if of_agent else None,
        path="agent__organization",
    )
    return Composed(rows)


def confirmations_of(caller: Caller) -> QuerySet[ConfirmationRequest]:
    """The requests that ``caller`` may see."""
    if isinstance(caller, RuntimeCaller):
        return access.rows_of_key(
            ConfirmationRequest.objects.all(),
            organization_id=caller.organization_id,
            agent_id=caller.agent_id,
        )
    return eligibility.visible_to(caller.user)


def confirmation(caller: Caller, reference: str) -> ConfirmationRequest:
    """The request with the id ``reference``. Raises 404 ``not_found``."""
    if isinstance(caller, RuntimeCaller):
        found = _of_key(caller, reference, whole=True)
    else:
        rows = confirmations_of(caller).select_related("agent", "organization")
        found = rows.filter(pk=uuid(reference)).first()
    if found is None:
        raise not_found()
    return found


def _of_key(caller: RuntimeCaller, reference: str, *, whole: bool) -> ConfirmationRequest | None:
    composed = _compose(of_agent=caller.agent_id is not None, whole=whole)
    return composed.first(id=uuid(reference), organization=caller.organization_id, agent=caller.agent_id)


@cache
def _compose(*, of_agent: bool, whole: bool) -> Composed[ConfirmationRequest]:
    requests = ConfirmationRequest.objects.all()
    rows = access.rows_of_key(
        requests.select_related("agent", "organization") if whole else requests.only("pk"),
        organization_id=Parameter("organization"),
        agent_id=Parameter("agent") if of_agent else None,
    )
    return Composed(rows.filter(pk=Parameter("id")))


def own_confirmation(caller: RuntimeCaller, reference: str) -> tuple[ConfirmationRequest, Reach]:
    """The request with the id ``reference``, not yet read, for a verb that reads it itself and refuses what lies
    outside the reach. Raises 404 ``not_found`` for what is no id."""
    return ConfirmationRequest(pk=uuid(reference)), Reach(caller.organization_id, caller.agent_id)


def check_reach(caller: RuntimeCaller, reference: str) -> None:
    """Raises 404 ``not_found`` unless ``caller`` may know of the request."""
    if _of_key(caller, reference, whole=False) is None:
        raise not_found()


def check_votable(caller: PersonCaller, reference: str) -> None:
    """Raises 404 ``not_found`` unless the request is of an organization that the person belongs to.

    Wider than what the person may read, so that a member who is no approver is told so instead of 404.
    """
    rows = access.rows(ConfirmationRequest.objects.all(), caller.user, *access.EVERYBODY)
    if not rows.filter(pk=uuid(reference)).exists():
        raise not_found()


def confirmation_resource(caller: Caller, reference: str) -> Confirmation:
    """What ``GET /confirmations/{id}`` answers now. Raises 403 ``scope_missing``, 404 ``not_found``."""
    permits.check(caller, READ_CONFIRMATIONS)
    found = confirmations.settle(confirmation(caller, reference))
    return confirmations.represent(found, people=isinstance(caller, PersonCaller))


def channel(caller: RuntimeCaller, slug: str) -> Channel:
    """The channel ``slug`` of the caller's organization. Raises 404 ``not_found``."""
    if not re.fullmatch(SLUG_PATTERN, slug):
        raise not_found()
    found = (
        Channel.objects.select_related("organization")
        .filter(organization_id=caller.organization_id, slug=slug)
        .first()
    )
    if found is None:
        raise not_found()
    return found
