"""Runtime keys: the only writer of :class:`hooks_app.models.RuntimeKey`."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction

from hooks_app.models import Agent, RuntimeKey
from hooks_app.models.keys import KEY_PREFIX, KEY_SCOPES, default_scopes
from portal import audit
from portal.lib import clock, crypto
from portal.lib.composed import Composed, Parameter
from portal.lib.problems import FieldError, Problem, invalid
from portal.models import Membership, Organization, User
from portal.observe import outages

_BY_DIGEST = Composed(
    RuntimeKey.objects.select_related("organization", "agent", "created_by").filter(
        digest=Parameter("digest"), revoked_at__isnull=True
    )
)


def issue(
    *,
    organization: Organization,
    agent: Agent | None = None,
    scopes: Sequence[str] | None = None,
    expires_at: datetime | None = None,
    label: str = "",
    created_by: User | None = None,
    actor: audit.Actor,
) -> tuple[RuntimeKey, str]:
    """Make a key and return it with its plain text, which nobody sees again. Without ``scopes``: all but ``eval``.

    Raises ``Problem`` 400 for an unknown scope, an end that is over, another organization's agent, or a maker who is no
    member.
    """
    wanted = default_scopes() if scopes is None else list(dict.fromkeys(scopes))
    unknown = [scope for scope in wanted if scope not in KEY_SCOPES]
    if unknown or not wanted:
        named = f"there is no scope {unknown[0]!r}; " if unknown else ""
        raise invalid(FieldError("scopes", "invalid", f"{named}use some of {', '.join(KEY_SCOPES)}"))
    if expires_at is not None and expires_at <= clock.now():
        raise invalid(
            FieldError("expires_at", "invalid", "the time is over; name a later one, or leave it out")
        )
    if agent is not None and agent.organization_id != organization.pk:
        raise invalid(FieldError("agent", "invalid", f"{agent.slug} belongs to another organization"))
    plain, digest = crypto.new_bearer(KEY_PREFIX)
    with transaction.atomic():
        if created_by is not None:
            _hold_maker(created_by, organization)
        key = RuntimeKey.objects.create(
            organization=organization,
            agent=agent,
            label=label,
            digest=digest,
            scopes=wanted,
            created_by=created_by,
            expires_at=expires_at,
        )
        _record(key, "key.issued", actor)
    return key, plain


def _hold_maker(user: User, organization: Organization) -> None:
    """A membership that ends meanwhile would leave its key behind: hold it until the key is there to be ended."""
    held = Membership.objects.select_for_update().filter(user=user, organization=organization).first()
    if held is None and not user.is_superuser:
        raise invalid(FieldError("created_by", "not_a_member", f"{user.username} is no member any more"))


def rotate(
    key: RuntimeKey, *, ends_after: timedelta, created_by: User | None, actor: audit.Actor
) -> tuple[RuntimeKey, str]:
    """Make a key like ``key`` and let that one end ``ends_after`` from now, or earlier where it would have anyway.

    Returns the new key with its plain text, as :func:`issue` does. Raises ``Problem`` 409 ``key_ended`` when the key is
    worthless already: whoever holds it has nothing to be taken over.
    """
    with transaction.atomic():
        held = RuntimeKey.objects.select_for_update().get(pk=key.pk)
        now = clock.now()
        if held.revoked_at is not None or (held.expires_at is not None and held.expires_at <= now):
            raise Problem(409, "key_ended", "The key has ended already; make a new one.")
        made, plain = issue(
            organization=key.organization,
            agent=key.agent,
            scopes=held.scopes,
            expires_at=held.expires_at,
            label=held.label,
            created_by=created_by,
            actor=actor,
        )
        end = now + ends_after
        held.expires_at = end if held.expires_at is None else min(end, held.expires_at)
        RuntimeKey.objects.filter(pk=key.pk).update(expires_at=held.expires_at)
        _record(held, "key.rotated", actor, replaced_by=str(made.pk))
    return made, plain


def authenticate(plain: str) -> RuntimeKey | None:
    """The key behind ``plain``, with its organization and agent; ``None`` if it is unknown, revoked, expired, or its
    maker's account is inactive. Notes the minute of its use."""
    if not plain.startswith(KEY_PREFIX):
        return None
    key = _BY_DIGEST.first(digest=crypto.bearer_digest(plain))
    now = clock.now()
    if key is None or (key.expires_at is not None and key.expires_at <= now):
        return None
    if key.created_by is not None and not key.created_by.is_active:
        return None
    minute = now.replace(second=0, microsecond=0)
    if key.last_used_at != minute:
        note_use(key.pk, minute)
        key.last_used_at = minute
    return key


def note_use(pk: UUID, minute: datetime) -> None:
    """A key was used within ``minute``."""
    with outages.tolerated():
        RuntimeKey.objects.filter(pk=pk).update(last_used_at=minute)


def revoke(key: RuntimeKey, *, actor: audit.Actor) -> None:
    """Make the key worthless at once. A second time changes nothing."""
    with transaction.atomic():
        now = clock.now()
        if RuntimeKey.objects.filter(pk=key.pk, revoked_at__isnull=True).update(revoked_at=now):
            key.revoked_at = now
            _record(key, "key.revoked", actor)


def hand_over(key: RuntimeKey, heir: User, *, actor: audit.Actor) -> None:
    """Let the key be ``heir``'s, with whose account it dies from now on. Who made it may still know it."""
    with transaction.atomic():
        RuntimeKey.objects.filter(pk=key.pk).update(created_by=heir)
        key.created_by = heir
        _record(key, "key.handed_over", actor)


def name(key: RuntimeKey) -> str:
    """What people call the key: its label, else what it is for."""
    return key.label or (key.agent.slug if key.agent else key.organization.slug)


def _record(key: RuntimeKey, action: str, actor: audit.Actor, **more: str) -> None:
    audit.append(
        organization=key.organization,
        actor=actor,
        action=action,
        kind="runtime_key",
        id=key.pk,
        name=name(key),
        data={
            "agent": key.agent.slug if key.agent else None,
            "scopes": key.scopes,
            "expires_at": clock.rfc3339(key.expires_at),
            **more,
        },
    )
