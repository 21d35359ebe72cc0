"""Says whether the platform would take a card. Raises CardFault at the first thing that is wrong."""

import re
from collections.abc import Iterator
from typing import Any

from channels_app.sandbox import card_rules as rules
from channels_app.sandbox import element_check
from channels_app.sandbox.refusals import CardFault

UNPARSABLE = 200621
TOO_MANY = 11310
V2_TO_V1 = 200830
ELEMENT_ID = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,19}")


def check(card: object, *, replaces: bool = False) -> None:
    """Checks one card, already parsed from JSON, against the rules of JSON 2.0. `replaces`: it succeeds another."""
    if not isinstance(card, dict):
        raise CardFault(UNPARSABLE, "ROOT", "card must be a JSON object", card)
    if card.get("schema") != "2.0":
        code = V2_TO_V1 if replaces else UNPARSABLE
        raise CardFault(code, "ROOT -> schema", 'schema must be the string "2.0"', card.get("schema", ""))
    element_check.attributes(card, rules.CARD, "ROOT")
    _check_config(card.get("config", {}))
    if "header" in card:
        _check_header(card["header"])
    if "card_link" in card:
        element_check.attributes(
            card["card_link"], frozenset({"url", "pc_url", "ios_url", "android_url"}), "ROOT -> card_link"
        )
    _check_body(card.get("body"))
    _check_counts(card)


def declares_update_multi(card: dict[str, Any]) -> bool:
    """Whether `config.update_multi` stands there in so many words: PATCH wants it before and after."""
    config = card.get("config")
    return isinstance(config, dict) and config.get("update_multi") is True


def _check_config(config: object) -> None:
    path = "ROOT -> config"
    settings = element_check.attributes(config, rules.CONFIG, path)
    if settings.get("update_multi", True) is not True:
        raise CardFault(
            UNPARSABLE, f"{path} -> update_multi", "update_multi can only be true in schema V2", False
        )
    for name in ("enable_forward", "enable_forward_interaction", "streaming_mode"):
        element_check.boolean(settings, name, path)
    element_check.choice(settings, "width_mode", rules.WIDTH_MODES, path)
    summary = settings.get("summary")
    if summary is not None:
        element_check.attributes(summary, frozenset({"content", "i18n_content"}), f"{path} -> summary")


def _check_header(header: object) -> None:
    path = "ROOT -> header"
    settings = element_check.attributes(header, rules.HEADER, path)
    if "title" not in settings:
        raise CardFault(UNPARSABLE, f"{path} -> title", "title is required", "")
    for name in ("title", "subtitle"):
        if name in settings:
            element_check.text(settings[name], f"{path} -> {name}")
    element_check.choice(settings, "template", rules.HEADER_TEMPLATES, path)
    tags = settings.get("text_tag_list", [])
    if not isinstance(tags, list) or len(tags) > 3:
        raise CardFault(UNPARSABLE, f"{path} -> text_tag_list", "at most 3 tags", "")
    for index, tag in enumerate(tags):
        where = f"{path} -> text_tag_list -> [{index}]"
        element_check.attributes(tag, frozenset({"tag", "element_id", "text", "color"}), where)
        element_check.text(tag.get("text"), f"{where} -> text")


def _check_body(body: object) -> None:
    settings = element_check.attributes(body, rules.BODY, "ROOT -> body")
    elements = settings.get("elements")
    if not isinstance(elements, list):
        raise CardFault(UNPARSABLE, "ROOT -> body -> elements", "elements must be an array", elements)
    element_check.check_elements(elements, "ROOT -> body -> elements", element_check.Place())


def _check_counts(card: dict[str, Any]) -> None:
    count = 0
    ids: set[str] = set()
    names: set[str] = set()
    for node in walk(card):
        count += "tag" in node
        _claim(node, "element_id", ids)
        if node.get("tag") in rules.INTERACTIVE or node.get("tag") == "form":
            _claim(node, "name", names)
    if count > rules.MAX_ELEMENTS:
        raise CardFault(
            TOO_MANY, "ROOT", f"card contains {count} elements, at most {rules.MAX_ELEMENTS}", count
        )


def _claim(node: dict[str, Any], key: str, seen: set[str]) -> None:
    value = node.get(key)
    if value is None or value == "":
        return
    path = f"ROOT -> (tag: {node.get('tag')}) -> {key}"
    if not isinstance(value, str) or (key == "element_id" and not ELEMENT_ID.fullmatch(value)):
        raise CardFault(
            UNPARSABLE, path, f"{key}: letters, digits and _, a letter first, at most 20 characters", value
        )
    if value in seen:
        raise CardFault(UNPARSABLE, path, f"{key} must be unique in the card", value)
    seen.add(value)


def walk(value: object) -> Iterator[dict[str, Any]]:
    """Every object of a card, but not those inside a callback's `value`, which is the app's own data."""
    if isinstance(value, dict):
        yield value
        for key, child in value.items():
            if key != "value":
                yield from walk(child)
    elif isinstance(value, list):
        for child in value:
            yield from walk(child)
