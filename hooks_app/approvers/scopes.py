"""Whom the scope of a stage names, as queries over :class:`Facts`: of one request, or the places of a composed query.

The rules stand here once. A query for one request is composed anew each time, which costs more than to run it; what
every request and every vote asks is composed once for each scope (:func:`standing`, :func:`enough`).
"""

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import date
from functools import cache
from typing import Any, Literal, Self
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db.models import BooleanField, Case, CharField, Q, QuerySet, Value, When
from django.db.models.functions import Upper
from hookgate import addresses

from channels_app.models import Identity
from hooks_app.models import ConfirmationRequest, Stage
from hooks_app.models.policies import Scope
from portal.lib import clock
from portal.lib.composed import Composed, Parameter, in_one
from portal.models import Absence, GroupMember, Membership, Role, User

APPROVERS = (Role.APPROVER, Role.ADMIN)
# Where somebody who is away can be stood in for.
SUBSTITUTED = (Scope.AGENT_OWNER, Scope.APPROVERS, Scope.GROUP)
# No person, no group, no address, no id: in the place of what a request doesn't have.
NOBODY = UUID(int=0)
NOTHING = ""
_FORMS: tuple[Literal["NFC", "NFD", "NFKC", "NFKD"], ...] = ("NFC", "NFD", "NFKC", "NFKD")


@dataclass(frozen=True)
class Facts:
    """What decides who may decide: the ids of the organization, of the initiator as matched at creation, of the agent's
    owner and of the stage's group; the two addresses and the spellings of the id under which the initiator is known;
    today, as the organization counts days. Each is a value, or the :class:`Parameter` of a composed query."""

    organization: UUID | Parameter
    initiator: UUID | Parameter
    owner: UUID | Parameter
    group: UUID | Parameter
    address: str | Parameter
    other_address: str | Parameter
    id: str | Parameter
    nfc: str | Parameter
    nfd: str | Parameter
    nfkc: str | Parameter
    nfkd: str | Parameter
    today: date | Parameter

    @classmethod
    def of(cls, request: ConfirmationRequest, stage: Stage) -> Self:
        """The facts of one request."""
        told = request.initiator or {}
        # A runtime that names a person by their address alone sends it as the id.
        id = told.get("id") or NOTHING
        nfc, nfd, nfkc, nfkd = spellings(id)
        return cls(
            organization=request.organization_id,
            initiator=request.initiator_user_id or NOBODY,
            owner=request.agent.owner_id or NOBODY,
            group=stage.group or NOBODY,
            address=addresses.find(told.get("email")) or NOTHING,
            other_address=addresses.find(id) or NOTHING,
            id=id,
            nfc=nfc,
            nfd=nfd,
            nfkc=nfkc,
            nfkd=nfkd,
            today=clock.now().astimezone(ZoneInfo(request.organization.time_zone)).date(),
        )

    @classmethod
    def places(cls) -> Self:
        """The parameters of a composed query, named like the fields."""
        places: dict[str, Any] = {field.name: Parameter(field.name) for field in fields(cls)}
        return cls(**places)

    def values(self) -> dict[str, Any]:
        """What a composed query is given."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def spellings(text: str) -> list[str]:
    """However an id is written here or there: its four normal forms."""
    return [unicodedata.normalize(form, text.strip()) for form in _FORMS]


def members(facts: Facts) -> QuerySet[User]:
    """The active members of the organization."""
    return User.objects.filter(is_active=True, memberships__organization_id=facts.organization)


def principals(scope: str, facts: Facts) -> QuerySet[User]:
    """The active members who have a seat of their own: whom the scope names, wherever they are now."""
    match scope:
        case Scope.INITIATOR:
            return members(facts).filter(pk=facts.initiator)
        case Scope.ORG_MEMBERS:
            return members(facts)
        case Scope.AGENT_OWNER:
            return members(facts).filter(pk=facts.owner)
        case Scope.APPROVERS:
            return members(facts).filter(pk__in=approver_ids(facts.organization))
        case Scope.GROUP:
            return members(facts).filter(
                pk__in=GroupMember.objects.filter(group_id=facts.group).values("user_id")
            )
    # channel_members: nobody by name; an account of the chat decides by tapping.
    return User.objects.none()


def approver_ids(organization: UUID | Parameter) -> QuerySet[Membership, UUID]:
    """The active approvers and admins of an organization, by id."""
    return Membership.objects.filter(
        organization_id=organization, role__in=APPROVERS, user__is_active=True
    ).values_list("user_id", flat=True)


def is_initiator(facts: Facts) -> Q:
    """Whether a portal user is the initiator: as matched at creation, by e-mail now, by runtime identity now.

    Wider than the match of creation on purpose: it only ever takes an approval away.
    """
    ids = (facts.id, facts.nfc, facts.nfd, facts.nfkc, facts.nfkd)
    capitals = [Upper(_text(id), output_field=CharField()) for id in ids]
    bound = Identity.objects.alias(capitals=Upper("external_id")).filter(
        Q(external_id__in=ids) | Q(capitals__in=capitals),
        organization_id=facts.organization,
        app__isnull=True,
    )
    named = Q(email__in=(facts.address, facts.other_address)) & ~Q(email=NOTHING)
    return Q(pk=facts.initiator) | named | Q(pk__in=bound.values("user_id"))


def absences(scope: str, facts: Facts, *, forbids_self: bool) -> QuerySet[Absence]:
    """The absences of today whose seats somebody else may fill.

    Nobody stands in for the initiator where self-approval is forbidden: it would be the same approval by proxy.
    """
    replaceable = principals(scope, facts)
    if forbids_self:
        replaceable = replaceable.exclude(is_initiator(facts))
    return Absence.objects.filter(
        organization_id=facts.organization,
        first_day__lte=facts.today,
        last_day__gte=facts.today,
        user__in=replaceable.values("pk"),
    )


def people(scope: str, facts: Facts, *, forbids_self: bool) -> QuerySet[User]:
    """The principals, and those who stand in for one of them today."""
    seats = principals(scope, facts)
    if scope not in SUBSTITUTED:
        return seats
    away = absences(scope, facts, forbids_self=forbids_self).values("substitute_id")
    return members(facts).filter(Q(pk__in=seats.values("pk")) | Q(pk__in=away))


def able(scope: str, facts: Facts, *, forbids_self: bool) -> QuerySet[User]:
    """Those whose approvals could fill different seats now.

    Each principal fills their own, also while somebody stands in for them, so a substitute adds none. Where
    self-approval is forbidden nobody fills the initiator's.
    """
    found = principals(scope, facts)
    return found.exclude(is_initiator(facts)) if forbids_self else found


@dataclass(frozen=True)
class Asked:
    """Whose decision is asked for: the scope and the quorum of a stage, its facts, and whether the initiator may not
    approve. Requests that say the same get the same answer."""

    scope: str
    quorum: int
    forbids_self: bool
    facts: Facts

    @classmethod
    def of(cls, request: ConfirmationRequest, stage: Stage) -> Self:
        """What one request asks."""
        forbids_self = bool(request.policy["forbid_self_approval"])
        return cls(stage.scope, stage.quorum, forbids_self, Facts.of(request, stage))


def standing(asked: Asked, user: UUID) -> bool | None:
    """Whether ``user``, who may decide, is the initiator; ``None`` for who may not decide. One statement."""
    if asked.scope == Scope.CHANNEL_MEMBERS:
        return None
    found = _standing(asked.scope, asked.forbids_self).first(user=user, **asked.facts.values())
    return None if found is None else bool(vars(found)["is_initiator"])


def standings(asked: Iterable[Asked], user: UUID) -> dict[Asked, bool | None]:
    """:func:`standing` for many; one statement for all that differ."""
    different = [one for one in dict.fromkeys(asked) if one.scope != Scope.CHANNEL_MEMBERS]
    parts = [
        (_standing(one.scope, one.forbids_self), {"user": user, **one.facts.values()}) for one in different
    ]
    found = in_one(parts, "is_initiator")
    known = {one: bool(rows[0][0]) if rows else None for one, rows in zip(different, found, strict=True)}
    return {one: known.get(one) for one in asked}


def lacking(asked: Iterable[Asked]) -> dict[Asked, int]:
    """How many people each lacks to reach its quorum now; one statement for all that differ.

    Where any member of a chat decides nobody knows how many there are: none.
    """
    different = [one for one in dict.fromkeys(asked) if one.scope != Scope.CHANNEL_MEMBERS]
    parts = [(_able(one.scope, one.forbids_self, one.quorum), one.facts.values()) for one in different]
    found = in_one(parts, "COUNT(*)")
    known = {one: one.quorum - rows[0][0] for one, rows in zip(different, found, strict=True)}
    return {one: known.get(one, 0) for one in asked}


def enough(asked: Asked) -> bool:
    """Whether as many people as the quorum could approve now. One statement, which looks for no more than that."""
    if asked.scope == Scope.CHANNEL_MEMBERS:
        return False
    return (
        len(_able(asked.scope, asked.forbids_self, asked.quorum).rows(**asked.facts.values())) == asked.quorum
    )


@cache
def _standing(scope: str, forbids_self: bool) -> Composed[User]:
    facts = Facts.places()
    initiator = Case(
        When(is_initiator(facts), then=Value(True)), default=Value(False), output_field=BooleanField()
    )
    found = people(scope, facts, forbids_self=forbids_self).filter(pk=Parameter("user"))
    return Composed(found.annotate(is_initiator=initiator).only("pk").order_by())


@cache
def _able(scope: str, forbids_self: bool, quorum: int) -> Composed[User]:
    found = able(scope, Facts.places(), forbids_self=forbids_self)
    return Composed(found.only("pk").order_by()[:quorum])


def _text(value: str | Parameter) -> Any:
    return value if isinstance(value, Parameter) else Value(value)


def initiators(facts: Facts, among: Iterable[UUID] | None = None) -> QuerySet[User]:
    """Every portal user who is the initiator, of those in ``among``, if given."""
    found = User.objects.filter(is_initiator(facts))
    return found if among is None else found.filter(pk__in=list(among))
