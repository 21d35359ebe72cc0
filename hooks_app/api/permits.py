"""What a caller needs for a call, apart from reaching the row it is about."""

from dataclasses import dataclass

from hooks_app.api.authentication import Caller, RuntimeCaller
from portal.lib.problems import Problem


@dataclass(frozen=True)
class Permit:
    """The scope that a runtime key and a person's token need. ``None``: this kind of caller may not at all."""

    runtime: str | None = None
    person: str | None = None


def check(caller: Caller, permit: Permit) -> None:
    """Raise 403 ``people_only``, ``runtime_only`` or ``scope_missing`` unless ``caller`` may make the call."""
    is_runtime = isinstance(caller, RuntimeCaller)
    scope = permit.runtime if is_runtime else permit.person
    if scope is None and is_runtime:
        raise Problem(
            403, "people_only", "A person does this, not a runtime key: sign in or use a personal token."
        )
    if scope is None:
        raise Problem(403, "runtime_only", "A runtime does this: use a runtime key.")
    require_scope(caller, scope)


def require_scope(caller: Caller, scope: str) -> None:
    """Raise 403 ``scope_missing`` unless the key or token has ``scope``."""
    if scope not in caller.scopes:
        what = "key" if isinstance(caller, RuntimeCaller) else "token"
        raise Problem(403, "scope_missing", f"This {what} lacks the scope {scope!r}; issue one that has it.")
