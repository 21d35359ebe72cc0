"""What an agent's draft would make of its registry, and how it differs from what is published."""

import difflib
import json
from typing import Any

from hooks_app.models import Agent, Declaration, RegistryHead
from hooks_app.registry import draft_checks, publishing
from hooks_app.registry.draft_checks import Judged
from portal.lib.problems import FieldError, Problem


def judge(agent: Agent) -> Judged:
    """What the draft would make of the registry. Writes nothing."""
    return draft_checks.judge(agent, publishing.draft(agent))


def difference(agent: Agent) -> list[dict[str, str]]:
    """The lines in which the draft differs from what is published: ``[{"kind": "add|remove|keep|place", "text"}]``."""
    head = RegistryHead.objects.filter(agent=agent).select_related("publication").first()
    before = _lines(head.publication.content) if head is not None else []
    after = _lines(publishing.draft(agent))
    kinds = {"+": "add", "-": "remove", "@": "place", " ": "keep"}
    lines = list(difflib.unified_diff(before, after, lineterm="", n=3))[2:]
    return [{"kind": kinds[line[0]], "mark": line[0], "text": line[1:]} for line in lines]


def _lines(content: dict[str, Any]) -> list[str]:
    """Ids are left out: they name rows, not rules."""
    shown = dict(content)
    for key in ("class_hooks", "events"):
        shown[key] = [{name: value for name, value in item.items() if name != "id"} for item in content[key]]
    return json.dumps(shown, ensure_ascii=False, indent=2, sort_keys=True).splitlines()


def refuse_faulty(declaration: Declaration) -> None:
    """Raise 400 with what is wrong with this one declaration, paths relative to it; other faults of the draft stay.

    Call it in the transaction that wrote the row.
    """
    errors = judge(declaration.agent).errors
    place = _place(declaration)
    mine = [
        FieldError(error.path.removeprefix(place).lstrip("."), error.code, error.message)
        for error in errors
        if error.path == place or error.path.startswith((f"{place}.", f"{place}["))
    ]
    mine += [
        _matcher(error) for error in errors if error.path == f"{place.partition('].hooks[')[0]}].matcher"
    ]
    if mine:
        raise Problem(400, "invalid", "; ".join(error.message for error in mine), errors=mine)


def _matcher(error: FieldError) -> FieldError:
    return FieldError("matcher", error.code, error.message)


def _place(declaration: Declaration) -> str:
    """The path under which the draft's errors name this declaration."""
    content = publishing.draft(declaration.agent)
    for index, item in enumerate(content["class_hooks"]):
        if item["id"] == str(declaration.pk):
            return f"hooks.class_hooks[{index}]"
    for item in content["events"]:
        if item["id"] == str(declaration.pk):
            return f"hooks.events.{item['event']}[{item['group']}].hooks[{item['index']}]"
    raise LookupError(f"{declaration.pk} is no part of its agent's draft")
