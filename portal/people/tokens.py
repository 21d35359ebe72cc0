"""Personal tokens: the only writer of :class:`portal.models.PersonalToken`."""

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from portal import audit
from portal.lib import clock, crypto
from portal.lib.composed import Composed, Parameter
from portal.lib.problems import FieldError, invalid
from portal.models import PersonalToken, User
from portal.models.tokens import TOKEN_PREFIX, TOKEN_SCOPES, default_scopes
from portal.observe import outages
from portal.people import accounts

_BY_DIGEST = Composed(
    PersonalToken.objects.select_related("user").filter(
        digest=Parameter("digest"), revoked_at__isnull=True, user__is_active=True
    )
)


def issue(
    *,
    user: User,
    scopes: Sequence[str] | None = None,
    expires_at: datetime | None = None,
    label: str = "",
    actor: audit.Actor,
) -> tuple[PersonalToken, str]:
    """Make a token and return it with its plain text, which nobody sees again. Without ``scopes``: ``read``.

    Raises ``Problem`` 400 for an unknown scope, an end that is over, or an inactive user.
    """
    wanted = default_scopes() if scopes is None else list(dict.fromkeys(scopes))
    unknown = [scope for scope in wanted if scope not in TOKEN_SCOPES]
    if unknown or not wanted:
        named = f"there is no scope {unknown[0]!r}; " if unknown else ""
        raise invalid(FieldError("scopes", "invalid", f"{named}use some of {', '.join(TOKEN_SCOPES)}"))
    if expires_at is not None and expires_at <= clock.now():
        raise invalid(
            FieldError("expires_at", "invalid", "the time is over; name a later one, or leave it out")
        )
    if not user.is_active:
        raise invalid(
            FieldError("user", "inactive", f"{user.username} is switched off; activate the account first")
        )
    plain, digest = crypto.new_bearer(TOKEN_PREFIX)
    with transaction.atomic():
        token = PersonalToken.objects.create(
            user=user, label=label, digest=digest, scopes=wanted, expires_at=expires_at
        )
        accounts.note_given(user)
        _record(token, "token.issued", actor)
    return token, plain


def authenticate(plain: str) -> PersonalToken | None:
    """The token behind ``plain``, with its user; ``None`` if it is unknown, revoked, expired, or the user is inactive.

    Notes the minute of its use.
    """
    if not plain.startswith(TOKEN_PREFIX):
        return None
    token = _BY_DIGEST.first(digest=crypto.bearer_digest(plain))
    now = clock.now()
    if token is None or (token.expires_at is not None and token.expires_at <= now):
        return None
    minute = now.replace(second=0, microsecond=0)
    if token.last_used_at != minute:
        with outages.tolerated():
            PersonalToken.objects.filter(pk=token.pk).update(last_used_at=minute)
        token.last_used_at = minute
    return token


def revoke(token: PersonalToken, actor: audit.Actor) -> None:
    """Make the token worthless at once. A second time changes nothing."""
    with transaction.atomic():
        now = clock.now()
        if PersonalToken.objects.filter(pk=token.pk, revoked_at__isnull=True).update(revoked_at=now):
            token.revoked_at = now
            _record(token, "token.revoked", actor)


def revoke_all(user: User, *, before: datetime | None = None, actor: audit.Actor) -> list[PersonalToken]:
    """Revoke the tokens of ``user`` that work, or those that were made before a time; returns them."""
    found = PersonalToken.objects.select_related("user").filter(user=user, revoked_at__isnull=True)
    revoked = list(found if before is None else found.filter(created_at__lt=before))
    for token in revoked:
        revoke(token, actor)
    return revoked


def _record(token: PersonalToken, action: str, actor: audit.Actor) -> None:
    # A token belongs to a person, who may be a member of several organizations or of none.
    audit.append(
        organization=None,
        actor=actor,
        action=action,
        kind="personal_token",
        id=token.pk,
        name=token.label or token.user.username,
        data={
            "user": token.user.username,
            "scopes": token.scopes,
            "expires_at": clock.rfc3339(token.expires_at),
        },
    )
