"""Which requests a person's inbox shows, and under which heading."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.db.models import Q, QuerySet

from hooks_app import confirmations
from hooks_app.approvers import eligibility, seating
from hooks_app.approvers.eligibility import Judged
from hooks_app.confirmations import appearance
from hooks_app.governance import quorums
from hooks_app.models import ConfirmationRequest, Decision
from portal.lib import clock
from portal.lib.problems import Problem
from portal.models import User

# More than this many open requests are cut off, the most urgent kept: nobody decides hundreds on one page.
LONGEST = 100
Status = ConfirmationRequest.Status


@dataclass(frozen=True)
class Eligibility:
    """What one person can do about one request. ``refusals`` says why not, per decision; ``vote`` is their own."""

    refusals: dict[str, Problem | None]
    vote: Decision | None
    in_scope: bool
    # How many people the quorum lacks, so that an approval would come to nothing.
    lacking: int

    @property
    def may_approve(self) -> bool:
        """Whether the Approve button is shown."""
        return self.vote is None and self.refusals["approve"] is None

    @property
    def may_reject(self) -> bool:
        """Whether the Reject button is shown."""
        return self.vote is None and self.refusals["reject"] is None

    @property
    def may_decide(self) -> bool:
        """Whether there is any button."""
        return self.may_approve or self.may_reject

    @property
    def why_not(self) -> Problem | None:
        """The refusal that explains a missing button best."""
        return self.refusals["reject"] or self.refusals["approve"]


@dataclass(frozen=True)
class Item:
    """One line of the list."""

    request: ConfirmationRequest
    standing: Eligibility


@dataclass
class Waiting:
    """The open requests that a person sees, by what they are to that person. ``more`` of them are not shown."""

    to_decide: list[Item] = field(default_factory=list)
    voted: list[Item] = field(default_factory=list)
    own: list[Item] = field(default_factory=list)
    others: list[Item] = field(default_factory=list)
    more: int = 0


def standing(request: ConfirmationRequest, user: User) -> Eligibility:
    """Judge ``user`` as a vote would, without voting."""
    return standings([request], user)[request.pk]


def standings(requests: Sequence[ConfirmationRequest], user: User) -> dict[UUID, Eligibility]:
    """:func:`standing` for each of these requests, by its id, whose stages and decisions are in hand: two statements,
    and some more for each that others have voted on already."""
    judged = eligibility.for_user(user, requests)
    lacking = quorums.lack(requests)
    return {row.pk: _standing(row, user, judged[row.pk], lacking[row.pk]) for row in requests}


def _standing(request: ConfirmationRequest, user: User, judged: Judged, lacking: int) -> Eligibility:
    stage = eligibility.current_stage(request)
    votes = [vote for vote in appearance.votes(request) if vote.stage_id == stage.pk]
    # One that doesn't count any more can be cast again.
    vote = next((vote for vote in votes if vote.user_id == user.pk and vote.counts), None)
    taken = seating.refusal(request, stage, user) if votes and vote is None else None
    refusals = {decision: refusal or taken for decision, refusal in judged.refusals.items()}
    return Eligibility(refusals, vote, judged.in_scope, lacking)


def waiting(user: User) -> Waiting:
    """The pending requests, most urgent first."""
    rows = eligibility.visible_to(user).filter(status=Status.PENDING, expires_at__gt=clock.now())
    total = rows.count()
    shown = confirmations.listed(rows).prefetch_related("stages").order_by("expires_at", "id")[:LONGEST]
    return _sort(user, list(shown), more=max(0, total - LONGEST))


def _sort(user: User, rows: Sequence[ConfirmationRequest], *, more: int) -> Waiting:
    found = Waiting(more=more)
    judged = standings(rows, user)
    for row in rows:
        item = Item(row, judged[row.pk])
        # A request that only a tap decides is still for those to know who may tap.
        by_tap = row.mode == "channel_only" and item.standing.in_scope
        if item.standing.vote is not None:
            found.voted.append(item)
        elif item.standing.may_decide or by_tap:
            found.to_decide.append(item)
        elif row.initiator_user_id == user.pk:
            found.own.append(item)
        else:
            found.others.append(item)
    return found


def ended(user: User) -> QuerySet[ConfirmationRequest]:
    """What is over, also when nothing has swept it yet; the newest first."""
    over = ~Q(status=Status.PENDING) | Q(expires_at__lte=clock.now())
    return confirmations.listed(eligibility.visible_to(user).filter(over)).order_by("-created_at", "-id")
