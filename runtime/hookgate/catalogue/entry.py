"""One built-in hook class as the catalogue describes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hookgate.copying import Copied
from hookgate.events import HookEvent

if TYPE_CHECKING:
    from pydantic import BaseModel

    from hookgate.catalogue.services import HookServices
    from hookgate.hook import Hook
    from hookgate.spec import HookSpec, OnError


class ParamsInvalid(Copied, ValueError):
    """Parameters that a hook doesn't take.

    ``errors`` is a list of ``{"path": "max_calls", "code": "greater_than_equal", "message": "…"}``;
    the paths are relative to ``params``.
    """

    def __init__(self, errors: list[dict[str, str]]) -> None:
        super().__init__("; ".join(f"{error['path']}: {error['message']}" for error in errors))
        self.errors = errors


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """Name, hook points, defaults and typed parameters of one built-in hook.

    ``spelling_of`` is the class that a second name stands for, ``channel_type`` the platform which such
    a name implies. ``attached`` hooks belong to every agent, declared or not.
    """

    name: str
    points: tuple[HookEvent, ...]
    priority: int
    on_error: OnError
    summary: str
    model_name: str
    make: Callable[[HookSpec, HookServices], Hook]
    attached: bool = False
    spelling_of: str | None = None
    channel_type: str | None = None
    manifest_model_name: str | None = None

    def params_model(self, *, in_manifest: bool = False) -> type[BaseModel]:
        """The pydantic model of the parameters (unknown keys forbidden): of a declaration, or as a manifest
        has them, where the gate's declared entries are merged into one."""
        from hookgate.catalogue import params

        name = (in_manifest and self.manifest_model_name) or self.model_name
        model: type[BaseModel] = getattr(params, name)
        return model

    def validate_params(self, params: Mapping[str, Any], *, in_manifest: bool = False) -> dict[str, Any]:
        """The parameters with every default filled in. Raises ParamsInvalid."""
        from pydantic import ValidationError

        if not isinstance(params, Mapping):
            raise ParamsInvalid([{"path": "", "code": "dict_type", "message": "params must be an object"}])
        try:
            return (
                self.params_model(in_manifest=in_manifest)
                .model_validate(dict(params))
                .model_dump(mode="json")
            )
        except ValidationError as error:
            raise ParamsInvalid(
                [
                    {"path": _write_path(item["loc"]), "code": item["type"], "message": item["msg"]}
                    for item in error.errors(include_url=False, include_context=False, include_input=False)
                ]
            ) from None

    def select_points(self, params: Mapping[str, Any]) -> tuple[HookEvent, ...]:
        """Where a declaration with these validated parameters runs: its ``points`` when it names some."""
        named = params.get("points")
        return tuple(HookEvent(point) for point in named) if named else self.points

    def create(self, spec: HookSpec, services: HookServices) -> Hook:
        """The hook that ``spec`` declares, bound to one session's ``services``."""
        return self.make(spec, services)


def _write_path(location: tuple[int | str, ...]) -> str:
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path
