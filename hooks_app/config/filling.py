"""The two places of a config file that take values from the environment: channel configurations and passwords."""

from dataclasses import dataclass, field
from typing import Any

from channels_app import channels
from channels_app.models import Channel
from hooks_app.config import placeholders
from hooks_app.config.checks import Object, objects
from portal.lib.problems import FieldError, Problem
from portal.models import User

# A channel's path in the file, its type and its validated configuration.
Entry = tuple[str, str, dict[str, Any]]


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
        entries: list[Entry] = []
        for where, channel in objects(organization, "channels", path):
            if isinstance(slug, str) and isinstance(channel.get("slug"), str):
                entries += _read_channel(values, slug, channel, where)
        values.errors += channels.disagreements(entries)
        for where, member in objects(organization, "members", path):
            _read_password(values, member, where)
    return values


def _read_channel(values: Values, organization: str, channel: Object, path: str) -> list[Entry]:
    """Keep one channel's configuration; returned in a list if it is right."""
    kind, written = channel.get("type"), channel.get("config", {})
    if not isinstance(kind, str) or not isinstance(written, dict):
        return []
    row = Channel.objects.filter(organization__slug=organization, slug=channel["slug"], type=kind).first()
    stored = row.config if row is not None else {}
    config: dict[str, Any] = {}
    unset_keys = []
    faults = []
    for key, value in written.items():
        try:
            config[key] = placeholders.fill(value)
        except placeholders.Unset as unset:
            config[key] = stored.get(key)
            unset_keys.append(key)
            if config[key] in (None, ""):
                faults.append(FieldError(f"{path}.config.{key}", "unset", unset.message))
    values.configs[organization, channel["slug"]] = config
    try:
        complete = channels.validate_config(kind, config) if not faults else {}
        # A secret that the file doesn't hold is kept by the writer of channels, which sends it to no other address.
        secret = {key: channels.KEEP for key in unset_keys if key in channels.secret_fields(kind)}
        values.configs[organization, channel["slug"]] = {**config, **secret}
    except Problem as problem:
        faults = [FieldError(f"{path}.{error.path}", error.code, error.message) for error in problem.errors]
    values.errors += faults
    return [] if faults else [(path, kind, complete)]


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
