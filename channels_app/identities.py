"""The only writer of :class:`Identity`: which account is which person."""

from django.db import transaction

from channels_app.models import App, Channel, Identity
from portal import audit
from portal.lib import visible
from portal.lib.problems import FieldError, invalid
from portal.models import Membership, Organization, User


@transaction.atomic
def bind(
    *,
    organization: Organization,
    user: User,
    channel: Channel | None,
    external_id: str,
    name: str = "",
    actor: audit.Actor = audit.SYSTEM,
) -> Identity:
    """Say that an account is ``user``: of ``channel``'s app, or, without a channel, of the runtimes.

    The same binding again changes nothing but the name. Raises 400 ``invalid``: ``external_id`` when the account is
    somebody else's already, ``channel`` for another organization's, ``user`` for somebody who is no member.
    """
    if (
        not external_id
        or len(external_id) > 200
        or any(c.isspace() for c in external_id)
        or visible.hides(external_id)
    ):
        raise invalid(
            FieldError("external_id", "invalid", "use the platform's id of the account, such as ou_…")
        )
    if channel is not None and channel.organization_id != organization.pk:
        raise invalid(FieldError("channel", "unknown", "name a channel of the same organization"))
    if not Membership.objects.filter(organization=organization, user=user).exists():
        raise invalid(
            FieldError("user", "not_a_member", f"{user.username} is no member of {organization.slug}")
        )
    identity, new = Identity.objects.get_or_create(
        organization=organization,
        app=channel.app if channel else None,
        external_id=external_id,
        defaults={"user": user, "name": name},
    )
    if identity.user_id != user.pk:
        raise invalid(
            FieldError("external_id", "taken", f"{external_id} is {identity.user.username}; unbind it first")
        )
    if name and identity.name != name:
        identity.name = name
        identity.save(update_fields=["name"])
    if new:
        _record(identity, "identity.bound", actor)
    return identity


@transaction.atomic
def unbind(identity: Identity, *, actor: audit.Actor = audit.SYSTEM) -> None:
    """Forget whose account it is; from now on it decides nothing."""
    _record(identity, "identity.unbound", actor)
    identity.delete()


def find(app: App, external_id: str) -> Identity | None:
    """Whose account of ``app`` this is."""
    return Identity.objects.select_related("user").filter(app=app, external_id=external_id).first()


def find_runtime_user(organization: Organization, external_id: str) -> Identity | None:
    """Who a runtime means by its own user id."""
    return (
        Identity.objects.select_related("user")
        .filter(organization=organization, app__isnull=True, external_id=external_id)
        .first()
    )


def _record(identity: Identity, action: str, actor: audit.Actor) -> None:
    audit.append(
        organization=identity.organization,
        actor=actor,
        action=action,
        kind="identity",
        id=identity.pk,
        name=identity.external_id,
        data={"user": identity.user.username, "app": str(identity.app) if identity.app else None},
    )
