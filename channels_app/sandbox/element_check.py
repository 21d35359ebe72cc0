"""Checks of single components; see `card_check.check` for the card as a whole."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from channels_app.sandbox import card_rules as rules
from channels_app.sandbox.refusals import CardFault

UNPARSABLE = 200621
NOT_IN_V2 = 200861
EMPTY_NAME = 200530
BAD_IMAGE = 200570
NO_SUBMIT = 11310


@dataclass(frozen=True)
class Place:
    """Where an element stands: how deep in containers, and whether inside a form."""

    depth: int = 0
    in_form: bool = False


def attributes(value: object, allowed: frozenset[str], path: str) -> dict[str, Any]:
    """The value as an object that has only allowed keys."""
    if not isinstance(value, dict):
        raise CardFault(UNPARSABLE, path, "must be an object", value)
    unknown = sorted(set(value) - allowed)
    if unknown:
        raise CardFault(UNPARSABLE, path, "unsupported property in schema V2", unknown[0])
    return value


def boolean(settings: dict[str, Any], name: str, path: str) -> None:
    if not isinstance(settings.get(name, False), bool):
        raise CardFault(UNPARSABLE, f"{path} -> {name}", "must be a boolean", settings[name])


def choice(settings: dict[str, Any], name: str, allowed: frozenset[str], path: str) -> None:
    if name in settings and settings[name] not in allowed:
        raise CardFault(
            UNPARSABLE, f"{path} -> {name}", f"must be one of {', '.join(sorted(allowed))}", settings[name]
        )


def text(
    value: object, path: str, *, tags: tuple[str, ...] = ("plain_text", "lark_md"), limit: int | None = None
) -> None:
    """A text object: `tag`, and `content` a string of at most `limit` characters."""
    settings = attributes(value, rules.TEXT, path)
    if settings.get("tag") not in tags:
        raise CardFault(UNPARSABLE, f"{path} -> tag", f"must be {' or '.join(tags)}", settings.get("tag"))
    content = settings.get("content")
    if not isinstance(content, str):
        raise CardFault(UNPARSABLE, f"{path} -> content", "must be a string", content)
    if limit is not None and len(content) > limit:
        raise CardFault(UNPARSABLE, f"{path} -> content", f"at most {limit} characters", content)


def plain(value: object, path: str, *, limit: int | None = None) -> None:
    text(value, path, tags=("plain_text",), limit=limit)


def check_elements(elements: list[Any], path: str, place: Place) -> None:
    """Each component of a list. Raises CardFault."""
    for index, element in enumerate(elements):
        if not isinstance(element, dict) or not isinstance(element.get("tag"), str):
            raise CardFault(
                UNPARSABLE, f"{path} -> [{index}]", "an element must be an object with a tag", element
            )
        _check_element(element, f"{path} -> [{index}](tag: {element['tag']})", place)


def _check_element(element: dict[str, Any], path: str, place: Place) -> None:
    tag = element["tag"]
    if tag in rules.DROPPED_TAGS:
        raise CardFault(
            NOT_IN_V2, path, "cards of schema V2 no longer support this capability", f"unsupported tag {tag}"
        )
    if tag == "column" or (tag not in rules.ATTRIBUTES and tag not in rules.OTHER_TAGS):
        raise CardFault(UNPARSABLE, path, "unknown tag", f"unsupported tag {tag}")
    if tag in rules.ATTRIBUTES:
        attributes(element, rules.ATTRIBUTES[tag], path)
    if place.depth > 0 and tag in ("form", "table"):
        raise CardFault(UNPARSABLE, path, f"{tag} is not allowed inside a container", tag)
    if tag in rules.CONTAINERS and place.depth >= rules.MAX_DEPTH:
        raise CardFault(UNPARSABLE, path, f"containers nest at most {rules.MAX_DEPTH} deep", tag)
    if place.in_form and tag in rules.INTERACTIVE and not element.get("name"):
        raise CardFault(EMPTY_NAME, path, "an interactive component in a form needs a name", "")
    check = _CHECKS.get(tag)
    if check is not None:
        check(element, path, place)


def _check_div(element: dict[str, Any], path: str, place: Place) -> None:
    del place
    if "text" in element:
        text(element["text"], f"{path} -> text")
    for index, item in enumerate(element.get("fields", [])):
        where = f"{path} -> fields -> [{index}]"
        attributes(item, frozenset({"is_short", "text"}), where)
        text(item.get("text"), f"{where} -> text")
    if "text" not in element and not element.get("fields"):
        raise CardFault(UNPARSABLE, path, "text is required", "")


def _check_markdown(element: dict[str, Any], path: str, place: Place) -> None:
    del place
    if not isinstance(element.get("content"), str):
        raise CardFault(UNPARSABLE, f"{path} -> content", "must be a string", element.get("content"))


def _check_img(element: dict[str, Any], path: str, place: Place) -> None:
    del place  # nothing can be uploaded to this sandbox, so that no key is good
    raise CardFault(BAD_IMAGE, f"{path} -> img_key", "image key is invalid", element.get("img_key"))


def _check_columns(element: dict[str, Any], path: str, place: Place) -> None:
    columns = element.get("columns")
    if not isinstance(columns, list):
        raise CardFault(UNPARSABLE, f"{path} -> columns", "must be an array", columns)
    for index, column in enumerate(columns):
        where = f"{path} -> columns -> [{index}](tag: column)"
        attributes(column, rules.ATTRIBUTES["column"], where)
        if column.get("tag") != "column":
            raise CardFault(UNPARSABLE, where, "a column_set holds only columns", column.get("tag"))
        elements = column.get("elements", [])
        check_elements(elements, f"{where} -> elements", replace(place, depth=place.depth + 1))


def _check_container(element: dict[str, Any], path: str, place: Place) -> None:
    elements = element.get("elements")
    if not isinstance(elements, list):
        raise CardFault(UNPARSABLE, f"{path} -> elements", "must be an array", elements)
    check_elements(elements, f"{path} -> elements", replace(place, depth=place.depth + 1))


def _check_form(element: dict[str, Any], path: str, place: Place) -> None:
    if not isinstance(element.get("name"), str) or not element["name"]:
        raise CardFault(EMPTY_NAME, f"{path} -> name", "a form needs a name", "")
    _check_container(element, path, replace(place, in_form=True))
    if not any(_submits(node) for node in components(element["elements"])):
        raise CardFault(NO_SUBMIT, path, "there is no submit button in the form container, at least one", "")


def _submits(node: dict[str, Any]) -> bool:
    return node.get("form_action_type") == "submit" or node.get("action_type") == "form_submit"


def components(elements: list[Any]) -> list[dict[str, Any]]:
    """Every component below a list of elements, columns included."""
    found: list[dict[str, Any]] = []
    for element in elements:
        found.append(element)
        found += components(element.get("columns", []) + element.get("elements", []))
    return found


def _check_button(element: dict[str, Any], path: str, place: Place) -> None:
    if "text" in element:
        plain(element["text"], f"{path} -> text", limit=100)
    elif "icon" not in element:
        raise CardFault(UNPARSABLE, f"{path} -> text", "a button needs a text or an icon", "")
    choice(element, "type", rules.BUTTON_TYPES, path)
    choice(element, "size", rules.BUTTON_SIZES, path)
    choice(element, "form_action_type", frozenset({"submit", "reset"}), path)
    boolean(element, "disabled", path)
    if "form_action_type" in element and not place.in_form:
        raise CardFault(UNPARSABLE, f"{path} -> form_action_type", "only for buttons inside a form", "")
    for name in ("hover_tips", "disabled_tips"):
        if element.get(name):
            plain(element[name], f"{path} -> {name}")
    _check_confirm(element, path)
    _check_behaviors(element, path)


def _check_confirm(element: dict[str, Any], path: str) -> None:
    if "confirm" not in element:
        return
    confirm = attributes(element["confirm"], frozenset({"title", "text"}), f"{path} -> confirm")
    for name in ("title", "text"):
        if name not in confirm:
            raise CardFault(UNPARSABLE, f"{path} -> confirm -> {name}", f"{name} is required", "")
        plain(confirm[name], f"{path} -> confirm -> {name}")


def _check_behaviors(element: dict[str, Any], path: str) -> None:
    behaviors = element.get("behaviors", [])
    if not isinstance(behaviors, list):
        raise CardFault(UNPARSABLE, f"{path} -> behaviors", "must be an array", behaviors)
    for index, behavior in enumerate(behaviors):
        where = f"{path} -> behaviors -> [{index}]"
        kind = behavior.get("type") if isinstance(behavior, dict) else None
        if kind == "callback":
            attributes(behavior, frozenset({"type", "value"}), where)
            if not isinstance(behavior.get("value", {}), dict | str):
                raise CardFault(
                    UNPARSABLE, f"{where} -> value", "must be an object or a string", behavior["value"]
                )
        elif kind == "open_url":
            attributes(behavior, rules.OPEN_URL, where)
            if not isinstance(behavior.get("default_url"), str) or not behavior["default_url"]:
                raise CardFault(UNPARSABLE, f"{where} -> default_url", "is required", "")
        else:
            raise CardFault(UNPARSABLE, f"{where} -> type", "must be callback or open_url", kind)


def _check_input(element: dict[str, Any], path: str, place: Place) -> None:
    boolean(element, "required", path)
    boolean(element, "disabled", path)
    if element.get("required") and not place.in_form:
        raise CardFault(UNPARSABLE, f"{path} -> required", "only for inputs inside a form", True)
    choice(element, "input_type", rules.INPUT_TYPES, path)
    length = element.get("max_length", 1000)
    if not isinstance(length, int) or isinstance(length, bool) or not 1 <= length <= 1000:
        raise CardFault(UNPARSABLE, f"{path} -> max_length", "must be a whole number from 1 to 1000", length)
    if "placeholder" in element:
        plain(element["placeholder"], f"{path} -> placeholder", limit=100)
    if "label" in element:
        plain(element["label"], f"{path} -> label")
    _check_confirm(element, path)
    _check_behaviors(element, path)


def _check_select(element: dict[str, Any], path: str, place: Place) -> None:
    del place
    options = element.get("options")
    if not isinstance(options, list) or not options:
        raise CardFault(UNPARSABLE, f"{path} -> options", "at least one option", options)
    for index, option in enumerate(options):
        where = f"{path} -> options -> [{index}]"
        attributes(option, frozenset({"text", "value", "icon"}), where)
        plain(option.get("text"), f"{where} -> text")
        if not isinstance(option.get("value"), str):
            raise CardFault(UNPARSABLE, f"{where} -> value", "must be a string", option.get("value"))
    _check_behaviors(element, path)


_CHECKS: dict[str, Callable[[dict[str, Any], str, Place], None]] = {
    "div": _check_div,
    "markdown": _check_markdown,
    "img": _check_img,
    "column_set": _check_columns,
    "interactive_container": _check_container,
    "collapsible_panel": _check_container,
    "form": _check_form,
    "button": _check_button,
    "input": _check_input,
    "select_static": _check_select,
}
