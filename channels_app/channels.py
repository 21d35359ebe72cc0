"""The only writer of :class:`App` and :class:`Channel`, and the door to what the rest of the portal asks of them."""

from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import transaction
from django.urls import reverse

from channels_app import condition
from channels_app.bots import (
    adapter_class,
    open_adapter,
    parse_config,
    recipients,
    secret_fields,
    shared_settings,
    types,
    usable,
    validate_config,
)
from channels_app.models import App, Channel
from channels_app.probes import send_test
from portal import audit
from portal.lib.problems import FieldError, invalid
from portal.models import Organization

__all__ = [
    "KEEP",
    "adapter_class",
    "callback_url",
    "disagreements",
    "open_adapter",
    "recipients",
    "remove",
    "save",
    "secret_fields",
    "send_test",
    "types",
    "usable",
    "validate_config",
]

# A secret that reads like this stands for the stored one. Forms and exports show nothing else.
KEEP = "********"
# What identities name in the place of a channel: user ids of a runtime's own.
RUNTIME = "runtime"


def callback_url(channel: Channel) -> str:
    """The address that the platform must call for taps on this channel's cards."""
    path = reverse("channels:callback", args=[channel.organization.slug, channel.slug])
    return f"{settings.BASE_URL}{path}"


@transaction.atomic
def save(
    *,
    organization: Organization,
    slug: str,
    type: str,
    enabled: bool,
    language: str,
    config: dict[str, Any],
    channel: Channel | None = None,
    actor: audit.Actor = audit.SYSTEM,
) -> Channel:
    """Create or change a channel, and find or make its app.

    A secret given as :data:`KEEP` (or any run of three or more asterisks) keeps the stored one, as long as it goes to
    the same app at the same address. A new channel of a known app must agree with its secrets and ``base_url``; a
    channel that has been with its app changes them for all channels of it. Raises 400 ``invalid`` with paths ``slug``,
    ``type``, ``language`` and ``config.*``.
    """
    stored = Channel.objects.select_for_update().get(pk=channel.pk) if channel else None
    complete = validate_config(type, _with_kept(type, config, stored))
    key = adapter_class(type).app_key(parse_config(type, complete))
    _refuse_moved_secrets(type, config, complete, stored, key)
    app, _ = App.objects.get_or_create(organization=organization, type=type, key=key)
    siblings = list(app.channels.exclude(pk=stored.pk) if stored else app.channels.all())
    if stored is None or stored.app_id != app.pk:
        _refuse_disagreement(type, complete, siblings)
    row = stored or Channel(organization=organization)
    wanted = {"app": app, "slug": slug, "type": type, "enabled": enabled, "language": language}
    wanted["config"] = complete
    if stored and all(getattr(stored, name) == value for name, value in wanted.items()):
        return stored
    old = shared_settings(type, stored.config) if stored else None
    moved = stored is not None and (stored.app_id != app.pk or stored.config != complete)
    for name, value in wanted.items():
        setattr(row, name, value)
    if moved:
        condition.forget(row)
    _write(row)
    if old != shared_settings(type, complete):
        _share(row, siblings)
    _record(row, "channel.changed" if stored else "channel.created", actor)
    return row


def _with_kept(type: str, config: dict[str, Any], stored: Channel | None) -> dict[str, Any]:
    """``config`` with the stored value in the place of each kept secret."""
    kept = _kept(type, config)
    absent = [name for name in kept if stored is None or stored.config.get(name) is None]
    if absent:
        raise invalid(
            *(
                FieldError(f"config.{name}", "required", "no secret is stored yet; enter it")
                for name in absent
            )
        )
    return {**config, **{name: stored.config[name] for name in kept if stored}}


def _kept(type: str, config: dict[str, Any]) -> list[str]:
    """The secrets that ``config`` leaves as they are."""
    return sorted(
        name
        for name in secret_fields(type)
        if isinstance(config.get(name), str) and len(config[name]) >= 3 and set(config[name]) == {"*"}
    )


def _refuse_moved_secrets(
    type: str, config: dict[str, Any], complete: dict[str, Any], stored: Channel | None, key: str
) -> None:
    """Whoever sends a secret somewhere else must know it: a stored one goes only where it went before."""
    if stored is None or not _kept(type, config):
        return
    same_place = complete["base_url"].rstrip("/") == str(stored.config.get("base_url", "")).rstrip("/")
    if same_place and stored.type == type and stored.app.key == key:
        return
    raise invalid(
        *(
            FieldError(
                f"config.{name}", "reenter", "enter it again, because the app or its address has changed"
            )
            for name in _kept(type, config)
        )
    )


def _refuse_disagreement(type: str, complete: dict[str, Any], siblings: list[Channel]) -> None:
    """A channel that joins an app must come with the app's own settings."""
    mine = shared_settings(type, complete)
    for other in siblings:
        theirs = shared_settings(type, other.config)
        different = [name for name in mine if mine[name] != theirs[name]]
        if different:
            raise invalid(
                *(
                    FieldError(
                        f"config.{name}",
                        "disagrees",
                        f"channel {other.slug} uses the same app with another value; both must agree",
                    )
                    for name in different
                )
            )


def disagreements(entries: list[tuple[str, str, dict[str, Any]]]) -> list[FieldError]:
    """Compare channels before they are saved, such as those of one file.

    ``entries`` are ``(path, type, validated configuration)`` of one organization's channels; each error's path is the
    later channel's path, then ``config.KEY``.
    """
    first: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {}
    errors = []
    for path, type, config in entries:
        key = (type, adapter_class(type).app_key(parse_config(type, config)))
        mine = shared_settings(type, config)
        where, theirs = first.setdefault(key, (path, mine))
        errors += [
            FieldError(f"{path}.config.{name}", "disagrees", f"{where} uses the same app with another value")
            for name in mine
            if mine[name] != theirs[name]
        ]
    return errors


def _write(row: Channel) -> None:
    if row.slug == RUNTIME:
        raise invalid(
            FieldError("slug", "reserved", "runtime stands for a runtime's own user ids; use another name")
        )
    try:
        row.full_clean(exclude=["config"])
    except ValidationError as error:
        raise invalid(
            *(
                FieldError("slug" if field == "__all__" else field, "invalid", " ".join(messages))
                for field, messages in error.message_dict.items()
            )
        ) from None
    row.save()


def _share(row: Channel, siblings: list[Channel]) -> None:
    """Give the app's new settings to its other channels, and forget the token that the old ones had fetched."""
    shared = {
        name: value for name, value in shared_settings(row.type, row.config).items() if value is not None
    }
    for other in siblings:
        own = {name: v for name, v in other.config.items() if name not in shared_settings(row.type, {})}
        other.config = {**own, **shared}
        condition.forget(other)
        other.save(update_fields=["config", *condition.FIELDS])
    App.objects.filter(pk=row.app_id).update(token=None, token_expires_at=None)


@transaction.atomic
def remove(channel: Channel, *, actor: audit.Actor = audit.SYSTEM) -> bool:
    """Delete a channel, or switch it off when it has history. Returns whether it is gone."""
    used = channel.deliveries.exists() or channel.interactions.exists()
    _record(channel, "channel.disabled" if used else "channel.deleted", actor)
    if used:
        Channel.objects.filter(pk=channel.pk).update(enabled=False)
        return False
    app = channel.app
    channel.delete()
    if not (app.channels.exists() or app.identities.exists() or app.interactions.exists()):
        app.delete()
    return True


def _record(channel: Channel, action: str, actor: audit.Actor) -> None:
    audit.append(
        organization=channel.organization,
        actor=actor,
        action=action,
        kind="channel",
        id=channel.pk,
        name=channel.slug,
        data={"type": channel.type, "enabled": channel.enabled, "app": channel.app.key},
    )
