"""A quorum counts seats: each principal of a stage has one, and whoever stands in for somebody away fills theirs.

Who fills which is never stored. It follows from the votes in their order, and from who is who at the moment of asking:
people are switched off, leave, come back and are stood in for between two votes.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import F

from channels_app.models import Identity
from hooks_app.approvers import eligibility
from hooks_app.approvers.eligibility import Voter
from hooks_app.models import ConfirmationRequest, Decision, Stage
from hooks_app.models.policies import Scope
from portal.lib.problems import Problem
from portal.models import User

# A seat: of a person, or in a stage that any member of the chat decides of whoever voted.
Seat = UUID | str


class SeatTaken(Problem):
    """409 ``already_voted``: somebody else has cast the one vote of the seat. ``vote`` is theirs."""

    def __init__(self, vote: Decision) -> None:
        self.vote = vote
        who = vote.user.display_name if vote.user else vote.user_name or "An account of the chat"
        super().__init__(
            409, "already_voted", f"{who} has voted on the same seat: {vote.decision}. A seat has one vote."
        )


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
    of_chat = stage.scope == Scope.CHANNEL_MEMBERS
    fillable = _seats_of_chat(request, votes) if of_chat else _seats_of_people(request, stage, votes)
    barred = _barred(request, votes)
    holders: dict[Seat, Decision] = {}
    for vote in votes:
        if vote.decision == "approve" and vote.user_id in barred:
            continue
        free = next((seat for seat in fillable[vote.pk] if seat not in holders), None)
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


def refusal(request: ConfirmationRequest, stage: Stage, user: User) -> SeatTaken | None:
    """Why the vote of ``user``, who hasn't voted and may otherwise, would find no seat; ``None`` where one is free."""
    votes = list(stage.decisions.select_related("user"))
    if not votes:
        return None
    found = holder(request, stage, seat(request, stage, votes), Voter(user=user))
    return SeatTaken(found) if found else None


def _seats_of_people(
    request: ConfirmationRequest, stage: Stage, votes: Sequence[Decision]
) -> dict[UUID, Sequence[Seat]]:
    """The seats that each vote may fill, by the vote's id. A tap's vote is its person's while the account is theirs."""
    seats = _seats(request, stage, [vote.user_id for vote in votes if vote.user_id])
    bound = _bound(request, votes)
    return {
        vote.pk: seats[vote.user_id]
        if vote.user_id in seats and (vote.identity_facts is None or bound.get(vote.pk) == vote.user)
        else []
        for vote in votes
    }


def _seats_of_chat(request: ConfirmationRequest, votes: Sequence[Decision]) -> dict[UUID, Sequence[Seat]]:
    """Likewise where any account of the chat decides: the account was enough when it voted. A person who was switched
    off since is not, and two accounts that turned out to be one person's have one seat."""
    bound = _bound(request, votes)
    found: dict[UUID, Sequence[Seat]] = {}
    for vote in votes:
        user = vote.user or bound.get(vote.pk)
        if user is None:
            found[vote.pk] = [vote.voter]
        else:
            found[vote.pk] = [Voter(user=user).key] if user.is_active else []
    return found


def _bound(request: ConfirmationRequest, votes: Sequence[Decision]) -> dict[UUID, User]:
    """Whose account each vote of a tap was cast with, as accounts are bound now, by the vote's id."""
    by_tap = {vote.pk: vote.identity_facts for vote in votes if vote.identity_facts is not None}
    if not by_tap:
        return {}
    rows = Identity.objects.filter(
        organization=request.organization_id,
        external_id__in={facts["external_id"] for facts in by_tap.values()},
        app__channels__slug__in={facts["channel"] for facts in by_tap.values()},
    ).select_related("user")
    found = {(row.slug, row.external_id): row.user for row in rows.annotate(slug=F("app__channels__slug"))}
    return {
        vote: found[key]
        for vote, facts in by_tap.items()
        if (key := (facts["channel"], facts["external_id"])) in found
    }


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
