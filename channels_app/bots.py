"""From a channel's row to the code that speaks for it."""

from typing import Any

from pydantic import ValidationError

from channels_app import adapters
from channels_app.adapters.base import Adapter, AdapterConfig, Platform, TokenStore
from channels_app.models import Channel
from channels_app.tokens import AppTokens
from portal.lib import http
from portal.lib.problems import FieldError, Problem, invalid


def types() -> list[tuple[str, str]]:
    """``(type, title)`` of every platform that is known here."""
    return [(platform.type, platform.title) for platform in adapters.installed().values()]


def adapter_class(type: str) -> type[Platform]:
    """The class of a platform. Raises 400 ``invalid`` for ``type`` when nothing of that name is installed.

    Only a subclass of :class:`Adapter` can send; :func:`usable` says why another can't.
    """
    found = adapters.installed().get(type)
    if found is None:
        known = ", ".join(sorted(adapters.installed()))
        raise invalid(
            FieldError("type", "unknown", f"no adapter of type {type!r} is installed; known: {known}")
        )
    return found


def secret_fields(type: str) -> set[str]:
    """The configuration keys that are write-only."""
    fields = adapter_class(type).config_model.model_fields
    return {name for name, field in fields.items() if "SecretStr" in repr(field.annotation)}


def parse_config(type: str, config: dict[str, Any]) -> AdapterConfig:
    """The typed configuration. Raises 400 ``invalid`` with a path under ``config`` for each field at fault."""
    platform = adapter_class(type)
    try:
        return platform.config_model.model_validate(config)
    except ValidationError as error:
        raise invalid(*_field_errors(platform, error)) from None


def validate_config(type: str, config: dict[str, Any]) -> dict[str, Any]:
    """The configuration as it is stored: every default filled in, nothing unknown.

    Raises as :func:`parse_config`, and for a ``base_url`` that the portal may not call.
    """
    parsed = parse_config(type, config)
    refusal = _refused_address(adapter_class(type), parsed)
    if refusal:
        raise invalid(FieldError("config.base_url", "forbidden", refusal))
    return parsed.to_json()


def _refused_address(platform: type[Platform], config: AdapterConfig) -> str | None:
    try:
        http.check_base_url(config.base_url, hosts=platform.hosts)
    except http.ForbiddenAddress as error:
        return str(error)
    except ValueError:
        return "not a URL"
    return None


def _field_errors(platform: type[Platform], error: ValidationError) -> list[FieldError]:
    known = ", ".join(platform.config_model.model_fields)
    errors = []
    for fault in error.errors(include_url=False, include_input=False, include_context=False):
        path = ".".join(str(part) for part in ("config", *fault["loc"]))
        message = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "extra_forbidden":
            message = f"unknown key; {platform.type} takes {known}"
        elif fault["type"] == "missing":
            message = "is required"
        errors.append(FieldError(path, fault["type"], message))
    return errors


def usable(channel: Channel) -> str | None:
    """Why ``channel`` can't carry cards now, for an admin to read; ``None`` when it can."""
    if not channel.enabled:
        return f"channel {channel.slug} is switched off"
    try:
        platform = adapter_class(channel.type)
        config = parse_config(channel.type, channel.config)
    except Problem as problem:
        return problem.detail
    return _refused_address(platform, config) or platform.unusable(config)


def recipients(channel: Channel) -> list[str]:
    """Whom a card of this channel goes to. Raises 400 ``invalid`` when the stored configuration no longer holds."""
    return adapter_class(channel.type).recipients(parse_config(channel.type, channel.config))


def open_adapter(channel: Channel, tokens: TokenStore | None = None) -> Adapter:
    """The adapter that speaks for ``channel``; by itself it keeps its access token in the app's row.

    Raises 400 ``invalid`` when its platform can't be used, and :class:`portal.lib.http.ForbiddenAddress`.
    """
    platform = adapter_class(channel.type)
    config = parse_config(channel.type, channel.config)
    if not issubclass(platform, Adapter):
        raise invalid(FieldError("type", "not_available", platform.unusable(config) or "it can't send"))
    client = http.Client(config.base_url, hosts=platform.hosts)
    return platform(config, client=client, tokens=tokens or AppTokens(channel.app))


def shared_settings(type: str, config: dict[str, Any]) -> dict[str, Any]:
    """What every channel of one app must have in common: its secrets, and where its platform is."""
    return {name: config.get(name) for name in sorted({*secret_fields(type), "base_url"})}
