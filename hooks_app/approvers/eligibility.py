"""Who may decide on a request, and who may see it. Judged when asked, never remembered.

A request's policy is frozen; the person is not: whether somebody is active, a member, of the right role or group, or
bound to the account that tapped, is read at each vote.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db.models import Exists, F, OuterRef, Q, QuerySet

from channels_app.models import Channel, Identity
from hooks_app.approvers import scopes, words
from hooks_app.approvers.scopes import Asked, Facts
from hooks_app.models import ConfirmationRequest, Decision, Stage
from hooks_app.models.policies import Scope
from portal import access
from portal.lib import clock
from portal.lib.problems import Problem
from portal.models import Absence, GroupMember, Role, User

DECISIONS = ("approve", "reject")


@dataclass(frozen=True)
class Account:
    """The IM account behind a tap on one of the request's own cards, with the person it is bound to, if any."""

    channel: Channel
    external_id: str
    name: str = ""
    identity: Identity | None = None


@dataclass(frozen=True)
class Voter:
    """Who decides: a signed-in person (``account`` is null) or an account that tapped (``user`` null: unbound)."""

    user: User | None = None
    account: Account | None = None

    @property
    def key(self) -> str:
        """The name under which this voter counts as one: the person, or the account that nobody is bound to."""
        return f"user:{self.user.pk}" if self.user else f"account:{self.account_key}"

    @property
    def account_key(self) -> str | None:
        """``APP:EXTERNAL_ID`` of the account that tapped."""
        return f"{self.account.channel.app_id}:{self.account.external_id}" if self.account else None


def tapped(channel: Channel, external_id: str, name: str, identity: Identity | None) -> Voter:
    """The voter behind a tap on a card that was sent through ``channel``."""
    return Voter(
        user=identity.user if identity else None,
        account=Account(channel=channel, external_id=external_id, name=name, identity=identity),
    )


def earlier(request: ConfirmationRequest, votes: Sequence[Decision], voter: Voter) -> Decision | None:
    """The vote that ``voter`` has cast already: as this person, with this account, or with one of theirs that nobody
    was bound to then.

    An account that has voted is the voter that it was, whoever it is bound to since.
    """
    if not votes:
        return None
    own = _accounts_of(request, voter.user) if voter.user else set()
    for vote in votes:
        same_account = vote.account is not None and vote.account == voter.account_key
        if vote.voter == voter.key or same_account or (vote.user_id is None and vote.account in own):
            return vote
    return None


def _accounts_of(request: ConfirmationRequest, user: User) -> set[str]:
    bound = Identity.objects.filter(user=user, organization=request.organization_id, app__isnull=False)
    return {f"{app}:{external_id}" for app, external_id in bound.values_list("app_id", "external_id")}


def principals(request: ConfirmationRequest, stage: Stage) -> QuerySet[User]:
    """The active members who have a seat of their own in the stage: whom its scope names, wherever they are now."""
    return scopes.principals(stage.scope, Facts.of(request, stage))


def people(request: ConfirmationRequest, stage: Stage) -> QuerySet[User]:
    """The active members whom the stage's scope lets decide, the initiator's own approval not yet ruled out: its
    principals, and those who stand in for one of them today."""
    return scopes.people(stage.scope, Facts.of(request, stage), forbids_self=_forbids_self(request))


def substitutions(
    request: ConfirmationRequest, stage: Stage, substitutes: Iterable[UUID]
) -> list[tuple[UUID, UUID]]:
    """``(substitute, absent principal)`` for those of ``substitutes`` who may decide, the earliest absence first."""
    if stage.scope not in scopes.SUBSTITUTED:
        return []
    able = User.objects.filter(
        is_active=True, memberships__organization_id=request.organization_id, pk__in=list(substitutes)
    )
    absences = scopes.absences(stage.scope, Facts.of(request, stage), forbids_self=_forbids_self(request))
    rows = absences.filter(substitute__in=able.values("pk"))
    return list(rows.order_by("first_day", "pk").values_list("substitute_id", "user_id"))


def count(request: ConfirmationRequest, stage: Stage) -> int:
    """How many could approve now: the seats that different people can fill at once."""
    facts = Facts.of(request, stage)
    return scopes.able(stage.scope, facts, forbids_self=_forbids_self(request)).count()


def suffice(request: ConfirmationRequest, stage: Stage) -> bool:
    """Whether :func:`count` reaches the stage's quorum, in one statement that was composed before."""
    return scopes.enough(Asked.of(request, stage))


def seats(organization_id: UUID, scope: str, group_id: UUID | None = None) -> int | None:
    """How many seats a policy has in an organization now, whoever asks: the most that its quorum can be.

    The initiator and the agent's owner are one person. ``None`` for the members of a chat: nobody knows how many.
    """
    members = User.objects.filter(is_active=True, memberships__organization_id=organization_id)
    match scope:
        case Scope.INITIATOR | Scope.AGENT_OWNER:
            return 1
        case Scope.ORG_MEMBERS:
            return members.count()
        case Scope.APPROVERS:
            return members.filter(pk__in=scopes.approver_ids(organization_id)).count()
        case Scope.GROUP:
            group = GroupMember.objects.filter(group__in=[group_id]).values("user_id")
            return members.filter(pk__in=group).count()
    return None


def initiators(request: ConfirmationRequest) -> QuerySet[User]:
    """Every portal user who is the initiator: as matched at creation, by e-mail now, by runtime identity now."""
    return scopes.initiators(Facts.of(request, Stage()))


def judge(request: ConfirmationRequest, stage: Stage, voter: Voter, decision: str) -> Problem | None:
    """Why ``voter`` may not make this decision, or ``None``. Always a 403 of the contract."""
    if voter.account is None and request.mode == "channel_only":
        return Problem(403, "channel_only", "This request is decided only by a tap on its card.")
    if voter.account is not None and not _may_tap(request, voter.account):
        return _not_an_approver(stage.scope)
    if stage.scope == Scope.CHANNEL_MEMBERS and voter.account is not None:
        found = _standing_in_chat(request, voter.user)
    else:
        found = scopes.standing(Asked.of(request, stage), voter.user.pk) if voter.user else None
    return _judge(
        request, stage, decision, None if found is None else found or _is_named(request, voter.account)
    )


def _standing_in_chat(request: ConfirmationRequest, user: User | None) -> bool | None:
    """The policy says in so many words that the account is enough; a deactivated person's is not."""
    if user is None:
        return False
    return initiators(request).filter(pk=user.pk).exists() if user.is_active else None


def _judge(
    request: ConfirmationRequest, stage: Stage, decision: str, standing: bool | None
) -> Problem | None:
    if standing is None:
        return _not_an_approver(stage.scope)
    if standing and decision == "approve" and request.policy["forbid_self_approval"]:
        return Problem(403, "self_approval", "The initiator of a call may not approve it.")
    return None


@dataclass(frozen=True)
class Judged:
    """What one person may do about a request by the web. ``refusals`` has why not, or ``None``, by the decision."""

    in_scope: bool
    refusals: dict[str, Problem | None]


def for_user(user: User, requests: Iterable[ConfirmationRequest]) -> dict[UUID, Judged]:
    """What ``user`` may do about each of these requests, by its id; one statement for all, their stages in hand."""
    rows = list(requests)
    asked = {row.pk: Asked.of(row, current_stage(row)) for row in rows}
    standings = scopes.standings(asked.values(), user.pk)
    return {row.pk: _judged(row, standings[asked[row.pk]]) for row in rows}


def _judged(request: ConfirmationRequest, standing: bool | None) -> Judged:
    if request.mode == "channel_only":
        refused = Problem(403, "channel_only", "This request is decided only by a tap on its card.")
        return Judged(standing is not None, dict.fromkeys(DECISIONS, refused))
    stage = current_stage(request)
    return Judged(
        standing is not None,
        {decision: _judge(request, stage, decision, standing) for decision in DECISIONS},
    )


def may_decide(request: ConfirmationRequest, user: User, decision: str = "approve") -> Problem | None:
    """Why ``user`` may not make ``decision`` in the inbox or through the API, or ``None``."""
    return for_user(user, [request])[request.pk].refusals[decision]


def current_stage(request: ConfirmationRequest) -> Stage:
    """The open stage, or the last one of a request that has ended."""
    stages = list(request.stages.all())
    return next((stage for stage in stages if stage.status == "open"), stages[-1])


def visible_to(user: User) -> QuerySet[ConfirmationRequest]:
    """The requests that ``user`` may read: those of organizations where the role or a substitution gives sight of all,
    and of the user's other organizations those that the user started, owns the agent of, may decide or has decided."""
    if not user.is_active:
        return ConfirmationRequest.objects.none()
    stands_for = _stands_for(user)
    sees_all = Q(organization__in=access.organizations(user, *scopes.APPROVERS, Role.AUDITOR).values("pk"))
    for organization_id, absent_id in stands_for:
        if absent_id in scopes.approver_ids(organization_id):
            sees_all |= Q(organization=organization_id)
    groups = GroupMember.objects.filter(user__in=[user.pk, *(absent for _, absent in stands_for)])
    stages = Stage.objects.filter(request=OuterRef("pk")).filter(
        Q(scope=Scope.ORG_MEMBERS) | Q(scope=Scope.GROUP, group__in=groups.values("group_id"))
    )
    own = (
        Q(initiator_user=user)
        | Q(agent__owner__in=[user.pk, *(absent for _, absent in stands_for)])
        | Exists(stages)
        | Exists(Decision.objects.filter(request=OuterRef("pk"), user=user))
    )
    member_of = access.organizations(user, *access.EVERYBODY).values("pk")
    return ConfirmationRequest.objects.filter(sees_all | (Q(organization__in=member_of) & own))


def _may_tap(request: ConfirmationRequest, account: Account) -> bool:
    return request.mode != "inline_only" and account.channel.organization_id == request.organization_id


def _is_named(request: ConfirmationRequest, account: Account | None) -> bool:
    """Whether the account that tapped is the one that the runtime named."""
    named = (request.initiator or {}).get("id") or ""
    return account is not None and account.external_id in scopes.spellings(named)


def _forbids_self(request: ConfirmationRequest) -> bool:
    return bool(request.policy["forbid_self_approval"])


def _not_an_approver(scope: str) -> Problem:
    return Problem(403, "not_an_approver", f"Only {words.NOUNS[scope]} may decide this request.")


def _stands_for(user: User) -> list[tuple[UUID, UUID]]:
    """``(organization, absent person)`` of the absences that ``user`` covers today, in each organization's zone."""
    now = clock.now()
    absences: Iterable[Absence] = Absence.objects.filter(
        substitute=user,
        organization__memberships__user=user,
        user__memberships__organization=F("organization"),
        user__is_active=True,
    ).select_related("organization")
    return [
        (absence.organization_id, absence.user_id)
        for absence in absences
        if absence.first_day
        <= now.astimezone(ZoneInfo(absence.organization.time_zone)).date()
        <= absence.last_day
    ]
