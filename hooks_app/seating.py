"""A quorum counts seats: each principal of a stage has one, and whoever stands in for somebody away fills theirs.

Who fills which is never stored. It follows from the votes in their order, and from who is who at the moment of asking:
people are switched off, leave, come back and are stood in for between two votes.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from hooks_app import eligibility
from hooks_app.eligibility import Voter
from hooks_app.models import ConfirmationRequest, Decision, Stage
from hooks_app.models.policies import Scope

# A seat: of a person, or in a stage that any member of the chat decides of whoever voted.
Seat = UUID | str


@dataclass(frozen=True)
class Seating:
    """Which of the votes count now. ``holders`` has the vote on each seat that is taken."""

    holders: Mapping[Seat, Decision]

    def counts(self, vote: Decision) -> bool:
        """Whether a vote fills a seat."""
        return vote in self.holders.values()

    def count(self, decision: str) -> int:
        """How many votes of this kind (``approve`` or ``reject``) count."""
        return sum(vote.decision == decision for vote in self.holders.values())


def seat(request: ConfirmationRequest, stage: Stage, votes: Sequence[Decision]) -> Seating:
    """Seat the votes of a stage, given in their order, each voter judged as they are now.

    A person fills one seat: their own, else the first free one of those whom they stand in for, by the first day of the
    absence. A vote that finds none, or whose voter may no longer cast it, doesn't count.
    """
    if not votes:
        return Seating({})
    seats = _seats(request, stage, [vote.user_id for vote in votes if vote.user_id])
    barred = _barred(request, votes)
    holders: dict[Seat, Decision] = {}
    for vote in votes:
        if vote.decision == "approve" and vote.user_id in barred:
            continue
        free = next((seat for seat in _of(vote, stage, seats) if seat not in holders), None)
        if free is not None:
            holders[free] = vote
    return Seating(holders)


def holder(request: ConfirmationRequest, stage: Stage, seating: Seating, voter: Voter) -> Decision | None:
    """The vote that keeps ``voter`` from voting: every seat that they could fill has one. ``None`` if one is free."""
    if stage.scope == Scope.CHANNEL_MEMBERS or voter.user is None:
        return None
    seats = _seats(request, stage, [voter.user.pk])[voter.user.pk]
    taken = [seating.holders[seat] for seat in seats if seat in seating.holders]
    return taken[0] if taken and len(taken) == len(seats) else None


def _of(vote: Decision, stage: Stage, seats: Mapping[UUID, Sequence[Seat]]) -> Sequence[Seat]:
    if stage.scope == Scope.CHANNEL_MEMBERS:
        # The account was enough when it voted; a person who was switched off since is not.
        return [vote.voter] if vote.user is None or vote.user.is_active else []
    return seats.get(vote.user_id, []) if vote.user_id else []


def _seats(request: ConfirmationRequest, stage: Stage, voters: Iterable[UUID]) -> dict[UUID, list[Seat]]:
    """The seats that each of these people may fill now, the one to be filled first in front."""
    asked = list(voters)
    found: dict[UUID, list[Seat]] = defaultdict(list)
    for user in eligibility.principals(request, stage).filter(pk__in=asked).values_list("pk", flat=True):
        found[user] = [user]
    others = [user for user in asked if user not in found]
    if others:
        for substitute, absent in eligibility.substitutions(request, stage, others):
            found[substitute].append(absent)
    return found


def _barred(request: ConfirmationRequest, votes: Sequence[Decision]) -> set[UUID]:
    """Those of the voters who may not approve, because they are the initiator as far as is known now."""
    if not request.policy["forbid_self_approval"]:
        return set()
    voters = [vote.user_id for vote in votes if vote.user_id]
    return set(eligibility.initiators(request).filter(pk__in=voters).values_list("pk", flat=True))
