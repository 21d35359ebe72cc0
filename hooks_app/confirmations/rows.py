"""Reading requests: the joins that every verb needs, the topic of their cards, the wake-ups they give."""

from dataclasses import dataclass
from uuid import UUID

from hooks_app.models import ConfirmationRequest, Stage
from portal.audit import Actor
from portal.lib.composed import Composed, Parameter, remember
from portal.lib.problems import not_found
from portal.wakeups import wakeups

TOPIC_PREFIX = "confirmation"
_BY_ID = Composed(
    ConfirmationRequest.objects.select_related("agent", "organization", "initiator_user").filter(
        pk=Parameter("id")
    )
)

_STAGES = Composed(
    Stage.objects.select_related("request__agent", "request__organization", "request__initiator_user")
    .filter(request=Parameter("id"))
    .order_by("number")
)


@dataclass(frozen=True)
class Reach:
    """The requests that a runtime key reaches: its organization's, and of its own agent alone if it names one."""

    organization_id: UUID
    agent_id: UUID | None = None

    def check(self, row: ConfirmationRequest) -> None:
        """Raises 404 ``not_found`` for a request that lies outside."""
        if row.organization_id != self.organization_id or self.agent_id not in {None, row.agent_id}:
            raise not_found()


def load_with_stages(request_id: UUID) -> ConfirmationRequest:
    """As :func:`load`, with its stages, in one statement."""
    stages = _STAGES.rows(id=request_id)
    if not stages:
        raise not_found()
    row = stages[0].request
    for stage in stages:
        stage.request = row
    row.agent.organization = row.organization
    remember(row, "stages", stages)
    return row


def load(request_id: UUID, reach: Reach | None = None) -> ConfirmationRequest:
    """The request as it stands now, with agent, initiator and organization. Raises 404 ``not_found``."""
    row = _BY_ID.first(id=request_id)
    if row is None:
        raise not_found()
    # It is the same one, and was read with the row.
    row.agent.organization = row.organization
    if reach is not None:
        reach.check(row)
    return row


def topic(request_id: UUID) -> str:
    """What the deliveries of a request's cards are filed under."""
    return f"{TOPIC_PREFIX}:{request_id}"


def runtime_actor(row: ConfirmationRequest) -> Actor:
    """The runtime that asked, as the actor of what runtimes do."""
    return Actor("runtime", row.runtime, row.runtime or row.agent.slug)


def wake(row: ConfirmationRequest) -> None:
    """After the commit, tell whoever waits for this request, its agent's events or the inbox to read again."""
    wakeups.publish_on_commit(
        f"confirmation:{row.pk}", f"agent:{row.agent_id}", f"inbox:{row.organization_id}"
    )
