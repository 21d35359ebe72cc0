"""Bad values for every field, found by walking the OpenAPI document: a field that is new there is tested by itself."""

import copy
from typing import Any


def put(body: Any, place: tuple[Any, ...], value: Any) -> Any:
    """``body`` with ``value`` at ``place``."""
    if not place:
        return value
    changed = copy.deepcopy(body)
    target = changed
    for key in place[:-1]:
        target = target[key]
    target[place[-1]] = value
    return changed
