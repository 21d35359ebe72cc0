"""Reading requests: the joins that every verb needs, the topic of their cards, the wake-ups they give."""

from uuid import UUID

from hooks_app.models import ConfirmationRequest
from portal import wakeups
from portal.audit import Actor
from portal.lib.composed import Composed, Parameter
from portal.lib.problems import not_found

TOPIC_PREFIX = "confirmation"
_BY_ID = Composed(
    ConfirmationRequest.objects.select_related("agent", "organization", "initiator_user").filter(
        pk=Parameter("id")
    )
)


def load(request_id: UUID) -> ConfirmationRequest:
    """The request as it stands now, with agent, owner and organization. Raises 404 ``not_found``."""
    row = _BY_ID.first(id=request_id)
    if row is None:
        raise not_found()
    # It is the same one, and was read with the row.
    row.agent.organization = row.organization
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
