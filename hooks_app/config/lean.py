"""Leaves out of an exported object what a reader of the file would assume anyway."""

from typing import Any

from hooks_app.config.model import Model


def lean(model: type[Model], values: dict[str, Any]) -> dict[str, Any]:
    """``values`` without those that are ``model``'s defaults, by the names that the file uses."""
    kept = {}
    for name, field in model.model_fields.items():
        key = field.alias or name
        if key not in values or values[key] == _default(field):
            continue
        kept[key] = values[key]
    return kept


def _default(field: Any) -> Any:
    value = field.get_default(call_default_factory=True)
    # An object that has nothing but defaults is itself written as nothing.
    return {} if isinstance(value, Model) else value
