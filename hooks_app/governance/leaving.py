"""Leaving an organization ends what one made there, in the same step and on every path."""

from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from channels_app import identities
from channels_app.models import Identity
from hooks_app import keys
from hooks_app.governance import members
from hooks_app.models import Agent, RuntimeKey
from hooks_app.registry import heads
from portal import audit
from portal.models import (
    Absence,
    AccountLink,
    GroupMember,
    Invitation,
    Membership,
    Organization,
    PersonalToken,
    User,
)
from portal.people import accounts, tokens


@dataclass
class Estate:
    """What ends with a membership, or with an account that is switched off."""

    keys: list[RuntimeKey]
    tokens: list[PersonalToken]
    invitations: list[Invitation]
    links: list[AccountLink]
    agents: list[Agent] = field(default_factory=list)
    identities: list[Identity] = field(default_factory=list)
    groups: list[GroupMember] = field(default_factory=list)
    absences: list[Absence] = field(default_factory=list)

    def names(self) -> dict[str, list[str]]:
        """Each kind that there is something of, with what people call it; no secret."""
        found = {
            "keys": [keys.name(key) for key in self.keys],
            "tokens": [token.label or token.user.username for token in self.tokens],
            "invitations": [invitation.name for invitation in self.invitations],
            "links": [link.user.username for link in self.links],
            "agents": [agent.slug for agent in self.agents],
            "identities": [identity.external_id for identity in self.identities],
            "groups": [place.group.slug for place in self.groups],
            "absences": [f"{row.user.username} {row.first_day}" for row in self.absences],
        }
        return {kind: names for kind, names in found.items() if names}


def of_membership(membership: Membership) -> Estate:
    """What ends with ``membership``. Tokens are a person's everywhere: they end with the last membership."""
    user, organization = membership.user, membership.organization
    others = Membership.objects.filter(user=user).exclude(pk=membership.pk).exists()
    found = _made_by(user, organization)
    absences = Absence.objects.select_related("user").filter(organization=organization)
    return Estate(
        keys=found.keys,
        tokens=[] if others or user.is_superuser else found.tokens,
        invitations=found.invitations,
        links=found.links,
        agents=list(Agent.objects.filter(organization=organization, owner=user)),
        identities=list(
            Identity.objects.select_related("app", "user", "organization").filter(
                organization=organization, user=user
            )
        ),
        groups=list(
            GroupMember.objects.select_related("group").filter(group__organization=organization, user=user)
        ),
        absences=list(absences.filter(Q(user=user) | Q(substitute=user))),
    )


def of_account(user: User) -> Estate:
    """What ends when ``user`` is switched off. Role, groups and bindings stay for the day of their return."""
    return _made_by(user, None)


def _made_by(user: User, organization: Organization | None) -> Estate:
    def here(rows: QuerySet[Any], path: str = "organization") -> list[Any]:
        return list(rows if organization is None else rows.filter(**{path: organization}))

    made_keys = RuntimeKey.objects.select_related("organization", "agent").filter(
        created_by=user, revoked_at__isnull=True
    )
    made_links = AccountLink.objects.select_related("user").filter(made_by=user, ended_at__isnull=True)
    return Estate(
        keys=here(made_keys),
        tokens=list(PersonalToken.objects.select_related("user").filter(user=user, revoked_at__isnull=True)),
        invitations=here(
            Invitation.objects.select_related("organization").filter(made_by=user, declined_at__isnull=True)
        ),
        links=here(made_links, "user__memberships__organization"),
    )


@transaction.atomic
def leave(
    membership: Membership,
    *,
    actor: audit.Actor,
    heir: User | None = None,
    keep_admin: bool = True,
    action: str = "member.deleted",
) -> Estate:
    """End a membership and what hangs on it; returns what that was.

    ``action`` is what the audit trail calls it. ``heir`` takes over keys and agents; without one the keys are revoked
    and the agents have no owner. Raises 400 ``last_admin`` if nobody would be left who may change the organization,
    unless the caller judges that itself.
    """
    organization, user = membership.organization, membership.user
    # People before organizations, as everywhere that locks both.
    for pk in sorted({user.pk, *([heir.pk] if heir else [])}):
        accounts.locked(pk)
    members.locked(organization)
    if keep_admin:
        members.keep_an_admin(organization, user)
    found = of_membership(membership)
    for identity in found.identities:
        identities.unbind(identity, actor=actor)
    for row in (*found.groups, *found.absences):
        row.delete()
    Agent.objects.filter(pk__in=[agent.pk for agent in found.agents]).update(owner=heir)
    _end(found, actor=actor, heir=heir)
    members.end(membership, action=action, actor=actor, left=found.names(), heir=heir)
    if found.groups:
        heads.inputs_changed(organization)
    return found


@transaction.atomic
def switch_off(user: User, *, actor: audit.Actor) -> Estate:
    """Switch an account off and end what the person made; returns what that was. Nothing of it comes back with them.

    Raises 400 ``last_admin`` if an organization would have nobody left who may change it.
    """
    for membership in (
        Membership.objects.filter(user=user).select_related("organization").order_by("organization")
    ):
        members.locked(membership.organization)
        members.keep_an_admin(membership.organization, user, field="is_active")
    found = of_account(user)
    _end(found, actor=actor)
    accounts.switch_off(user)
    return found


def _end(found: Estate, *, actor: audit.Actor, heir: User | None = None) -> None:
    for key in found.keys:
        if heir is None:
            keys.revoke(key, actor=actor)
        else:
            keys.hand_over(key, heir, actor=actor)
    for token in found.tokens:
        tokens.revoke(token, actor)
    for invitation in found.invitations:
        members.withdraw(invitation, actor=actor)
    for link in found.links:
        accounts.end_links(link.user)
