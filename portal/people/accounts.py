"""Whose an account is: the only writer of passwords and of the facts about them.

An account belongs to who made it until the person has taken it over. So it is recorded whether anybody was ever able to
act as the person, and whether the password is one that the person chose.
"""

from collections.abc import Collection
from typing import Any
from uuid import UUID

from portal import audit
from portal.lib import clock
from portal.models import AccountLink, User


def locked(pk: UUID) -> User:
    """The account, its row locked until the transaction ends: what is judged about it holds until then."""
    return User.objects.select_for_update().get(pk=pk)


def was_never_given(user: User) -> bool:
    """Whether nobody has ever been given a way to act as this person, so that joining gives nobody anything.

    The column is the fact. What stands beside it is what Django's own commands write without it.
    """
    return not (
        user.first_credential_at is not None
        or user.last_login is not None
        or user.has_usable_password()
        or user.is_superuser
        or user.is_staff
    )


def note_given(user: User) -> None:
    """Record that ``user`` has been given a way in; call it in the transaction that gives it."""
    User.objects.filter(pk=user.pk, first_credential_at__isnull=True).update(first_credential_at=clock.now())


def make(user: User, plain: str | None) -> None:
    """Write a new account, with a password that somebody else has chosen or none. The caller records it, once it is
    known whose it is."""
    user.set_password(plain)
    user.save(force_insert=True)


def change(user: User, columns: Collection[str], data: dict[str, Any], *, actor: audit.Actor) -> None:
    """Write ``columns`` of an account: names and address. ``data`` is ``{column: [before, after]}``."""
    if data:
        user.save(update_fields=columns)
        record(user, "user.changed", actor, data)


def give_password(user: User, plain: str, *, actor: audit.Actor) -> None:
    """Set a password that somebody else has chosen. Sessions and links that are open end.

    ``user`` is locked by the caller, who has judged that the actor may.
    """
    user.set_password(plain)
    _save_password(user)
    record(user, "user.password_set", actor)


def choose_password(user: User, hashed: str, *, by_link: bool = False) -> None:
    """Set the password that the person chose. Other sessions and every link that is open end.

    ``hashed`` is what Django's ``make_password`` made of it, before the account was locked: hashing takes its time.
    """
    user.password = hashed
    user.password_own_since = clock.now()
    user.first_credential_at = user.first_credential_at or user.password_own_since
    _save_password(user)
    record(user, "user.password_changed", audit.person(user), {"by_link": True} if by_link else {})


def drop_password(user: User, *, actor: audit.Actor) -> bool:
    """Make a password unusable that the person didn't choose; links that are open end either way.

    Returns whether there was such a password. ``user`` is locked by the caller.
    """
    if user.password_own_since is not None or not user.has_usable_password():
        end_links(user)
        return False
    user.set_unusable_password()
    _save_password(user)
    record(user, "user.password_dropped", actor)
    return True


def switch_off(user: User) -> None:
    """Let nobody act as ``user`` any more; the caller ends what the person made. Links that are open end for good."""
    user.is_active = False
    user.save(update_fields=["is_active"])
    end_links(user)


def end_links(user: User) -> None:
    """Every link that is open for ``user`` is worthless from now on."""
    AccountLink.objects.filter(user=user, ended_at__isnull=True).update(ended_at=clock.now())


def _save_password(user: User) -> None:
    user.save(update_fields=["password", "first_credential_at", "password_own_since"])
    end_links(user)


def record(user: User, action: str, actor: audit.Actor, data: dict[str, Any] | None = None) -> None:
    """Append what happened to an account to the audit trail."""
    homes = list(user.memberships.all()[:2])
    audit.append(
        # An account is nobody's; what happens to it is told to the only organization that the person belongs to.
        organization=homes[0].organization if len(homes) == 1 else None,
        actor=actor,
        action=action,
        kind="user",
        id=user.pk,
        name=user.username,
        data=data,
    )
