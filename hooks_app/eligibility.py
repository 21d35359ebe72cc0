"""Who may decide on a request, and who may see it. Judged when asked, never remembered.

A request's policy is frozen; the person is not: whether somebody is active, a member, of the right role or group, or
bound to the account that tapped, is read at each vote.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db.models import Exists, F, OuterRef, Q, QuerySet
from hookgate import addresses

from channels_app.models import Channel, Identity
from hooks_app.models import ConfirmationRequest, Decision, Stage
from hooks_app.models.policies import Scope
from portal import access
from portal.lib import clock
from portal.lib.problems import Problem
from portal.models import Absence, GroupMember, Membership, Role, User

_APPROVERS = (Role.APPROVER, Role.ADMIN)
# Where somebody who is away can be stood in for.
_SUBSTITUTED = (Scope.AGENT_OWNER, Scope.APPROVERS, Scope.GROUP)


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
    members = User.objects.filter(is_active=True, memberships__organization_id=request.organization_id)
    match stage.scope:
        case Scope.INITIATOR:
            return (
                members.filter(pk=request.initiator_user_id) if request.initiator_user_id else members.none()
            )
        case Scope.ORG_MEMBERS:
            return members
        case Scope.AGENT_OWNER:
            return members.filter(pk=request.agent.owner_id) if request.agent.owner_id else members.none()
        case Scope.APPROVERS:
            return members.filter(pk__in=_approver_ids(request.organization_id))
        case Scope.GROUP:
            group = GroupMember.objects.filter(group__in=[stage.group]).values("user_id")
            return members.filter(pk__in=group)
    # channel_members: nobody by name; an account of the chat decides by tapping.
    return members.none()


def people(request: ConfirmationRequest, stage: Stage) -> QuerySet[User]:
    """The active members whom the stage's scope lets decide, the initiator's own approval not yet ruled out: its
    principals, and those who stand in for one of them today."""
    seats = principals(request, stage)
    if stage.scope not in _SUBSTITUTED:
        return seats
    members = User.objects.filter(is_active=True, memberships__organization_id=request.organization_id)
    away = _absences(request, stage).values("substitute_id")
    return members.filter(Q(pk__in=seats.values("pk")) | Q(pk__in=away))


def substitutions(
    request: ConfirmationRequest, stage: Stage, substitutes: Iterable[UUID]
) -> list[tuple[UUID, UUID]]:
    """``(substitute, absent principal)`` for those of ``substitutes`` who may decide, the earliest absence first."""
    if stage.scope not in _SUBSTITUTED:
        return []
    able = User.objects.filter(
        is_active=True, memberships__organization_id=request.organization_id, pk__in=list(substitutes)
    )
    rows = _absences(request, stage).filter(substitute__in=able.values("pk"))
    return list(rows.order_by("first_day", "pk").values_list("substitute_id", "user_id"))


def count(request: ConfirmationRequest, stage: Stage) -> int:
    """How many could approve now: the seats that different people can fill at once.

    Each principal fills their own, also while somebody stands in for them, so a substitute adds none. Where
    self-approval is forbidden nobody fills the initiator's.
    """
    able = principals(request, stage)
    if request.policy["forbid_self_approval"]:
        able = able.exclude(pk__in=initiators(request).values("pk"))
    return able.count()


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
            return members.filter(pk__in=_approver_ids(organization_id)).count()
        case Scope.GROUP:
            group = GroupMember.objects.filter(group__in=[group_id]).values("user_id")
            return members.filter(pk__in=group).count()
    return None


def initiators(request: ConfirmationRequest) -> QuerySet[User]:
    """Every portal user who is the initiator: as matched at creation, by e-mail now, by runtime identity now.

    Wider than the match of creation on purpose: it only ever takes an approval away.
    """
    facts = request.initiator or {}
    same = Q(pk__in=[request.initiator_user_id])
    # A runtime that names a person by their address alone sends it as the id.
    if named := [
        normal for text in (facts.get("email"), facts.get("id")) if (normal := addresses.find(text))
    ]:
        same |= Q(email__in=named)
    if facts.get("id"):
        # However the id is written here or there: this only ever takes an approval away.
        bound = Identity.objects.filter(organization=request.organization_id, app__isnull=True).filter(
            Q(external_id__in=_spellings(facts["id"])) | Q(external_id__iexact=facts["id"])
        )
        same |= Q(pk__in=bound.values("user_id"))
    return User.objects.filter(same)


def judge(request: ConfirmationRequest, stage: Stage, voter: Voter, decision: str) -> Problem | None:
    """Why ``voter`` may not make this decision, or ``None``. Always a 403 of the contract."""
    if voter.account is None and request.mode == "channel_only":
        return Problem(403, "channel_only", "This request is decided only by a tap on its card.")
    if not _in_scope(request, stage, voter):
        return Problem(403, "not_an_approver", _not_an_approver(stage.scope))
    if decision == "approve" and request.policy["forbid_self_approval"] and _is_initiator(request, voter):
        return Problem(403, "self_approval", "The initiator of a call may not approve it.")
    return None


def may_decide(request: ConfirmationRequest, user: User, decision: str = "approve") -> Problem | None:
    """Why ``user`` may not make ``decision`` in the inbox or through the API, or ``None``."""
    return judge(request, current_stage(request), Voter(user=user), decision)


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
    sees_all = Q(organization__in=access.organizations(user, *_APPROVERS, Role.AUDITOR).values("pk"))
    for organization_id, absent_id in stands_for:
        if absent_id in _approver_ids(organization_id):
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


def _in_scope(request: ConfirmationRequest, stage: Stage, voter: Voter) -> bool:
    if voter.account is not None:
        if request.mode == "inline_only" or voter.account.channel.organization_id != request.organization_id:
            return False
        if stage.scope == Scope.CHANNEL_MEMBERS:
            # The policy says in so many words that the account is enough; a deactivated person's is not.
            return voter.user is None or voter.user.is_active
    return voter.user is not None and people(request, stage).filter(pk=voter.user.pk).exists()


def _spellings(text: str) -> list[str]:
    return [unicodedata.normalize(form, text.strip()) for form in ("NFC", "NFD", "NFKC", "NFKD")]


def _is_initiator(request: ConfirmationRequest, voter: Voter) -> bool:
    facts = request.initiator or {}
    if voter.account and voter.account.external_id in _spellings(facts.get("id") or ""):
        return True
    return voter.user is not None and initiators(request).filter(pk=voter.user.pk).exists()


def _not_an_approver(scope: str) -> str:
    whom = {
        Scope.INITIATOR: "the initiator of the call",
        Scope.AGENT_OWNER: "the owner of the agent",
        Scope.ORG_MEMBERS: "an active member of the organization",
        Scope.APPROVERS: "an approver or admin of the organization",
        Scope.GROUP: "a member of the policy's group",
        Scope.CHANNEL_MEMBERS: "a member of the chat, by tapping the card",
    }
    return f"Only {whom[Scope(scope)]} may decide this request."


def _approver_ids(organization_id: UUID) -> QuerySet[Membership, UUID]:
    return Membership.objects.filter(
        organization_id=organization_id, role__in=_APPROVERS, user__is_active=True
    ).values_list("user_id", flat=True)


def _absences(request: ConfirmationRequest, stage: Stage) -> QuerySet[Absence]:
    """The absences of today, as the organization counts days, whose seats somebody else may fill.

    Nobody stands in for the initiator where self-approval is forbidden: it would be the same approval by proxy.
    """
    replaceable = principals(request, stage)
    if request.policy["forbid_self_approval"]:
        replaceable = replaceable.exclude(pk__in=initiators(request).values("pk"))
    today = clock.now().astimezone(ZoneInfo(request.organization.time_zone)).date()
    return Absence.objects.filter(
        organization_id=request.organization_id,
        first_day__lte=today,
        last_day__gte=today,
        user__in=replaceable.values("pk"),
    )


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
