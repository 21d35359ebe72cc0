"""Who belongs to an organization: the only writer of :class:`Membership` and :class:`Invitation`.

Nobody becomes a member through an account that somebody else may be able to use: whoever has an account already is
invited, and joins by accepting, signed in. See ``docs/architecture.md``.
"""

from dataclasses import dataclass
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext

from hooks_app.governance import emails
from portal import audit
from portal.lib import clock
from portal.lib.problems import FieldError, Problem, invalid
from portal.models import AccountLink, Invitation, Membership, Organization, Role, User
from portal.people import accounts, links, tokens


@dataclass(frozen=True)
class Acceptance:
    """What accepting changed beside the membership: whether the password is gone, and the link that was made for it."""

    membership: Membership
    password_dropped: bool
    link: tuple[AccountLink, str] | None = None


def locked(organization: Organization) -> None:
    """Hold the organization's row until the transaction ends: its members change one after the other."""
    Organization.objects.select_for_update().only("pk").get(pk=organization.pk)


def has_admin(organization: Organization, *, but: User | None = None) -> bool:
    """Whether somebody (other than ``but``) may change the organization."""
    admins = Membership.objects.filter(organization=organization, role=Role.ADMIN, user__is_active=True)
    return admins.exclude(user=but).exists() if but is not None else admins.exists()


def may_join_at_once(organization: Organization, user: User, email: str | None = None) -> bool:
    """Whether ``user``, whose row is locked, may become a member without being asked.

    Only an account that nobody was ever able to use. One of another organization that has another address than
    ``email`` is somebody else.
    """
    if not accounts.was_never_given(user):
        return False
    elsewhere = Membership.objects.filter(user=user).exclude(organization=organization).exists()
    return not elsewhere or not email or not user.email or emails.same(user.email, email)


def add(organization: Organization, user: User, role: str, *, actor: audit.Actor) -> Membership:
    """Make ``user`` a member; the caller has judged that it may be done without asking. Open links end."""
    accounts.end_links(user)
    membership = Membership.objects.create(organization=organization, user=user, role=role)
    Invitation.objects.filter(organization=organization).filter(Q(user=user) | Q(name=user.username)).delete()
    _record(membership, "member.created", actor, {"role": [None, role]})
    return membership


def make(
    organization: Organization, user: User, role: str, *, password: str | None, actor: audit.Actor
) -> Membership:
    """Make a new account, which belongs to ``organization`` from the start."""
    accounts.make(user, password)
    membership = add(organization, user, role, actor=actor)
    accounts.record(user, "user.created", actor)
    return membership


def set_role(membership: Membership, role: str, *, actor: audit.Actor, keep_admin: bool = True) -> None:
    """Give a member another role.

    Raises 400 ``last_admin`` if nobody would be left who may change the organization, unless the caller judges that.
    """
    locked(membership.organization)
    before = Membership.objects.get(pk=membership.pk).role
    if keep_admin and before == Role.ADMIN and role != Role.ADMIN:
        keep_an_admin(membership.organization, membership.user, field="role")
    membership.role = role
    membership.save(update_fields=["role"])
    if before != role:
        _record(membership, "member.changed", actor, {"role": [before, role]})


def end(
    membership: Membership,
    *,
    action: str,
    actor: audit.Actor,
    left: dict[str, list[str]],
    heir: User | None,
) -> None:
    """Delete the row; only :func:`hooks_app.governance.leaving.leave` calls this, which ends what hangs on it."""
    data: dict[str, object] = {"role": membership.role, **left}
    _record(membership, action, actor, data | ({"heir": heir.username} if heir else {}))
    membership.delete()


def keep_an_admin(organization: Organization, leaving: User, *, field: str = "") -> None:
    """Raises 400 ``last_admin`` if ``leaving`` is the only one who may change the organization."""
    is_admin = Membership.objects.filter(
        organization=organization, user=leaving, role=Role.ADMIN, user__is_active=True
    ).exists()
    if is_admin and not has_admin(organization, but=leaving):
        text = gettext(
            "%(user)s is the only active admin of %(organization)s; make somebody else admin first."
        ) % {"user": leaving.username, "organization": organization.slug}
        raise Problem(400, "last_admin", text, errors=[FieldError(field, "last_admin", text)])


def invite(
    organization: Organization,
    name: str,
    role: str,
    *,
    email: str = "",
    made_by: User | None,
    actor: audit.Actor,
) -> Invitation:
    """Ask the person with the user name ``name`` to join. Says the same whether there is such a person or not.

    Raises 400 ``invalid`` for somebody who is a member or has been asked already.
    """
    if Membership.objects.filter(organization=organization, user__username=name).exists():
        raise invalid(FieldError("name", "member", f"{name} is a member already"))
    if Invitation.objects.filter(organization=organization, name=name).exists():
        raise invalid(FieldError("name", "invited", f"{name} has been invited already"))
    invitation = Invitation.objects.create(
        organization=organization,
        name=name,
        user=User.objects.filter(username=name).first(),
        email=email,
        role=role,
        made_by=made_by,
    )
    _record_invitation(invitation, "member.invited", actor, {"role": [None, role]})
    return invitation


def change_invitation(
    invitation: Invitation, role: str, email: str | None = None, *, actor: audit.Actor
) -> bool:
    """Offer another role, or know another address (``None``: the same); returns whether anything is new."""
    wanted = {"role": role, "email": invitation.email if email is None else email}
    data: dict[str, object] = {
        name: [getattr(invitation, name), value]
        for name, value in wanted.items()
        if getattr(invitation, name) != value
    }
    if not data:
        return False
    invitation.role, invitation.email = wanted["role"], wanted["email"]
    invitation.save(update_fields=["role", "email"])
    _record_invitation(invitation, "member.invitation_changed", actor, data)
    return True


def withdraw(invitation: Invitation, *, actor: audit.Actor) -> None:
    """Take an invitation back."""
    _record_invitation(invitation, "member.invitation_withdrawn", actor)
    invitation.delete()


def invitations_of(user: User) -> list[Invitation]:
    """What ``user`` may accept or decline."""
    found = Invitation.objects.filter(user=user, declined_at__isnull=True)
    return list(found.select_related("organization", "made_by"))


@transaction.atomic
def accept(user: User, invitation_id: UUID, role: str) -> Acceptance:
    """Join as ``role``, which the person has read. Only that person, signed in, calls this.

    A password that the person didn't choose becomes unusable, and so do tokens of the time before one of their own: who
    made the account must not be able to act in this organization. Raises 404 ``not_found`` for an invitation that is
    not open, 409 ``changed_meanwhile`` if the role is another by now, 409 ``address_taken`` if another member has the
    person's e-mail address.
    """
    row, person = _open(user, invitation_id)
    if row.role != role:
        raise Problem(409, "changed_meanwhile", "The invitation has changed; read it again.")
    if emails.holder(person.email, [row.organization_id], but=person.pk):
        raise Problem(
            409,
            "address_taken",
            gettext(
                "Another member has your e-mail address; ask an admin of %(organization)s to change one of them."
            )
            % {"organization": row.organization.name},
        )
    actor = audit.person(person)
    own_since = person.password_own_since
    tokens.revoke_all(person, before=own_since, actor=actor)
    dropped = accounts.drop_password(person, actor=actor)
    membership = Membership.objects.filter(organization=row.organization, user=person).first()
    membership = membership or add(row.organization, person, row.role, actor=actor)
    link = None
    # Whoever made the account wrote its address: a link goes there only if this organization has the same.
    agreed = bool(row.email) and emails.same(row.email, person.email)
    if dropped and agreed and links.are_mailed():
        link = links.issue(person, made_by=None, actor=actor)
    return Acceptance(membership, dropped, link)


@transaction.atomic
def decline(user: User, invitation_id: UUID) -> Invitation:
    """Say no. Raises 404 ``not_found`` for an invitation that is not open."""
    row, person = _open(user, invitation_id)
    row.declined_at = clock.now()
    row.save(update_fields=["declined_at"])
    _record_invitation(row, "member.invitation_declined", audit.person(person))
    return row


def _open(user: User, invitation_id: UUID) -> tuple[Invitation, User]:
    """An invitation and the person, both locked: of two answers at once one finds nothing."""
    person = accounts.locked(user.pk)
    rows = Invitation.objects.select_for_update(of=("self",)).select_related("organization")
    row = rows.filter(pk=invitation_id, user=person, declined_at__isnull=True).first()
    if row is None or not person.is_active:
        raise Problem(404, "not_found", "There is no such invitation any more.")
    return row, person


def _record(membership: Membership, action: str, actor: audit.Actor, data: dict[str, object]) -> None:
    audit.append(
        organization=membership.organization,
        actor=actor,
        action=action,
        kind="member",
        id=membership.user_id,
        name=f"{membership.organization.slug}/{membership.user.username}",
        data=data,
    )


def _record_invitation(
    row: Invitation, action: str, actor: audit.Actor, data: dict[str, object] | None = None
) -> None:
    audit.append(
        organization=row.organization,
        actor=actor,
        action=action,
        kind="invitation",
        id=row.pk,
        name=f"{row.organization.slug}/{row.name}",
        data=data,
    )
