"""The two places of a config file that take values from the environment: channel configurations and passwords."""

from dataclasses import dataclass, field
from typing import Any

from channels_app import bots
from channels_app.models import Channel
from hooks_app.config import placeholders
from hooks_app.config.checks import Object, objects
from portal.lib.problems import FieldError, Problem
from portal.models import User

_MISSING = object()


@dataclass
class Values:
    """Filled-in values by ``(organization slug, channel slug or user name)``, and what is wrong with them."""

    configs: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict, repr=False)
    passwords: dict[str, str] = field(default_factory=dict, repr=False)
    errors: list[FieldError] = field(default_factory=list)


def read(document: Object) -> Values:
    """Fill in and validate every channel's configuration and every new user's password."""
    values = Values()
    for path, organization in objects(document, "organizations", ""):
        slug = organization.get("slug")
        for where, channel in objects(organization, "channels", path):
            if isinstance(slug, str) and isinstance(channel.get("slug"), str):
                _read_channel(values, slug, channel, where)
        for where, member in objects(organization, "members", path):
            _read_password(values, member, where)
    return values


def _read_channel(values: Values, organization: str, channel: Object, path: str) -> None:
    kind, written = channel.get("type"), channel.get("config", {})
    if not isinstance(kind, str) or not isinstance(written, dict):
        return
    row = Channel.objects.filter(organization__slug=organization, slug=channel["slug"], type=kind).first()
    config: dict[str, Any] = {}
    faults = []
    for key, value in written.items():
        try:
            config[key] = placeholders.fill(value)
        except placeholders.Unset as unset:
            kept = (row.config or {}).get(key, _MISSING) if row is not None else _MISSING
            if kept is _MISSING or kept in (None, ""):
                faults.append(FieldError(f"{path}.config.{key}", "unset", unset.message))
            else:
                config[key] = kept
    if not faults:
        faults = _validate(kind, config, path)
    values.errors += faults
    values.configs[organization, channel["slug"]] = config


def _validate(kind: str, config: dict[str, Any], path: str) -> list[FieldError]:
    try:
        bots.validate_config(kind, config)
    except Problem as problem:
        return [FieldError(f"{path}.{error.path}", error.code, error.message) for error in problem.errors]
    return []


def _read_password(values: Values, member: Object, path: str) -> None:
    user, password = member.get("user"), member.get("password")
    if not isinstance(user, str) or not isinstance(password, str):
        return
    if User.objects.filter(username=user).exists():
        return
    try:
        values.passwords[user] = placeholders.fill(password)
    except placeholders.Unset as unset:
        values.errors.append(FieldError(f"{path}.password", "unset", unset.message))
