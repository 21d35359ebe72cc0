"""Where a config file takes values from the environment: the secrets of channels, and passwords.

With a prefix for the variables' names all of a channel's configuration. Everywhere else a placeholder is an error.
"""

from dataclasses import dataclass, field
from typing import Any

from channels_app import channels
from channels_app.models import Channel
from hooks_app.config import placeholders
from hooks_app.config.checks import Object, objects
from hooks_app.config.placeholders import Location, Variables
from portal.lib.problems import FieldError, Problem
from portal.models import User

# A channel's path in the file, its type and its validated configuration.
Entry = tuple[str, str, dict[str, Any]]


@dataclass
class Values:
    """Filled-in values by ``(organization slug, channel slug)`` or by user name, and what is said about them."""

    variables: Variables
    configs: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict, repr=False)
    passwords: dict[str, str] = field(default_factory=dict, repr=False)
    errors: list[FieldError] = field(default_factory=list)
    warnings: list[FieldError] = field(default_factory=list)


def read_literals(document: Any) -> tuple[Any, list[FieldError]]:
    """``document`` as it reads where nothing is replaced, and an error for each placeholder there.

    Channels' configurations and passwords stay as they are written: :func:`read` fills them. So does what nothing here
    reads, the rest of an agent's ``model_config_json``.
    """
    faults: list[FieldError] = []
    return placeholders.each(document, placeholders.read_literal, (), faults, _is_not_literal), faults


def _is_not_literal(at: Location) -> bool:
    match at:
        case ("organizations", _, "members", _, "password") | ("organizations", _, "channels", _, "config"):
            return True
        case ("organizations", _, "agents", _, "model_config_json", key):
            return key != "hooks"
    return False


def read(document: Object, variables: Variables) -> Values:
    """Fill in and validate every channel's configuration and every new user's password."""
    values = Values(variables)
    for path, organization in objects(document, "organizations", ""):
        slug = organization.get("slug")
        entries: list[Entry] = []
        for where, channel in objects(organization, "channels", path):
            if isinstance(slug, str) and isinstance(channel.get("slug"), str):
                entries += _read_channel(values, slug, channel, where)
        values.errors += channels.disagreements(entries)
        for where, member in objects(organization, "members", path):
            _read_password(values, slug, member, where)
    return values


def _read_channel(values: Values, organization: str, channel: Object, path: str) -> list[Entry]:
    """Keep one channel's configuration; returned in a list if it is right."""
    kind, written = channel.get("type"), channel.get("config", {})
    if not isinstance(kind, str) or not isinstance(written, dict):
        return []
    try:
        secret = channels.secret_fields(kind)
    except Problem as problem:
        values.errors += _below(path, problem)
        return []
    row = Channel.objects.filter(organization__slug=organization, slug=channel["slug"], type=kind).first()
    filled = _Filled(values, organization, f"{path}.config", row.config if row is not None else {})
    for key, value in written.items():
        filled.take(key, value, secret=key in secret)
    values.configs[organization, channel["slug"]] = filled.config
    if filled.faults:
        values.errors += filled.faults
        return []
    try:
        complete = channels.validate_config(kind, filled.config)
    except Problem as problem:
        values.errors += _below(path, problem)
        return []
    # A secret that the file doesn't hold is kept by the writer of channels, which sends it to no other address.
    kept = {key: channels.KEEP for key in filled.unset if key in secret}
    values.configs[organization, channel["slug"]] = {**filled.config, **kept}
    return [(path, kind, complete)]


def _below(path: str, problem: Problem) -> list[FieldError]:
    return [FieldError(f"{path}.{error.path}", error.code, error.message) for error in problem.errors]


class _Filled:
    """One channel's configuration while it is filled in."""

    def __init__(self, values: Values, organization: str, path: str, stored: Object) -> None:
        self.values = values
        self.organization = organization
        self.path = path
        self.stored = stored
        self.config: Object = {}
        self.unset: list[str] = []
        self.faults: list[FieldError] = []

    def take(self, key: str, value: Any, *, secret: bool) -> None:
        """Fill in one key; where a variable is unset, what is stored stays."""
        variables = self.values.variables
        found: list[FieldError] = []
        if secret or variables.prefix is not None:
            _warn_of_names(self.values, self.organization, value, f"{self.path}.{key}")
            self.config[key] = placeholders.each(value, variables.fill, (key,), found)
        else:
            self.config[key] = placeholders.each(value, placeholders.read_literal, (key,), found)
        others = [error for error in found if error.code != "unset"]
        if found and not others:
            self.unset.append(key)
            self.config[key] = self.stored.get(key)
            others = found if self.config[key] in (None, "") else []
        self.faults += [
            FieldError(f"{self.path}.{error.path}", error.code, error.message) for error in others
        ]


def _read_password(values: Values, organization: object, member: Object, path: str) -> None:
    user, password = member.get("user"), member.get("password")
    if not isinstance(user, str) or not isinstance(password, str):
        return
    where = f"{path}.password"
    try:
        values.variables.check(password)
        if isinstance(organization, str):
            _warn_of_names(values, organization, password, where)
        if not User.objects.filter(username=user).exists():
            values.passwords[user] = values.variables.fill(password)
    except placeholders.Refused as refused:
        values.errors.append(FieldError(where, refused.code, refused.message))


def _warn_of_names(values: Values, organization: str, value: Any, path: str) -> None:
    """Say which variables are not the organization's by name, unless a prefix was named."""
    if values.variables.prefix is not None or not isinstance(value, str):
        return
    begin = placeholders.prefix_of(organization)
    for name in placeholders.names(value):
        if not name.startswith(begin):
            message = f"{name} does not begin with {begin}, as a variable of {organization} should; rename it, or name"
            values.warnings.append(
                FieldError(path, "foreign_variable", f"{message} a prefix with apply --env")
            )
