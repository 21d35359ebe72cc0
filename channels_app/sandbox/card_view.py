"""A card as the people in the chat see it: lines, buttons, inputs, mentions and links."""

import dataclasses
from dataclasses import asdict, dataclass
from typing import Any

from channels_app.sandbox import markup
from channels_app.sandbox.card_rules import OTHER_TAGS
from channels_app.sandbox.markup import Span


@dataclass
class Button:
    """A drawn button. `live`: a press does something. `dead_because` says why it does not."""

    name: str
    text: str
    type: str
    disabled: bool = False
    form: str = ""
    submit: bool = False
    reset: bool = False
    callback: bool = False
    value: Any = None
    url: str = ""
    confirm_title: str = ""
    confirm_text: str = ""

    @property
    def dead_because(self) -> str:
        if self.disabled:
            return "the button is disabled"
        if not (self.callback or self.submit or self.reset or self.url):
            return "the button has no behaviors, and a 2.0 card ignores a top-level value"
        return ""

    @property
    def key(self) -> str:
        """What the page calls the button by."""
        return self.name or self.text


@dataclass
class Field:
    """A drawn input or select."""

    name: str
    form: str
    required: bool = False
    max_length: int = 1000
    multiline: bool = False
    secret: bool = False
    rows: int = 1
    label: str = ""
    placeholder: str = ""
    value: str = ""
    disabled: bool = False
    options: list[tuple[str, str]] = dataclasses.field(default_factory=list)


@dataclass
class Part:
    """One drawn piece. `kind`: text, hr, button, field, columns, form, box or other, which names what is filled."""

    kind: str
    spans: list[Span] = dataclasses.field(default_factory=list)
    button: Button | None = None
    field: Field | None = None
    columns: list[list["Part"]] = dataclasses.field(default_factory=list)
    parts: list["Part"] = dataclasses.field(default_factory=list)
    name: str = ""


@dataclass
class View:
    """A whole card, drawn."""

    title: list[Span]
    subtitle: list[Span]
    template: str
    tags: list[str]
    parts: list[Part]
    link: str = ""

    def flat(self) -> list[Part]:
        return _flatten(self.parts)

    def buttons(self) -> list[Button]:
        return [part.button for part in self.flat() if part.button is not None]

    def fields(self) -> list[Field]:
        return [part.field for part in self.flat() if part.field is not None]

    def spans(self) -> list[Span]:
        return self.title + self.subtitle + [span for part in self.flat() for span in part.spans]

    def as_json(self) -> dict[str, Any]:
        """The form in which the control side lists it."""
        spans = self.spans()
        links = [{"text": span.text, "url": span.target} for span in spans if span.kind == "link"]
        links += [{"text": button.text, "url": button.url} for button in self.buttons() if button.url]
        links += [{"text": "card", "url": self.link}] if self.link else []
        return {
            "title": markup.text_of(self.title),
            "subtitle": markup.text_of(self.subtitle),
            "template": self.template,
            "tags": self.tags,
            "lines": self.lines(),
            "buttons": [_button_json(button) for button in self.buttons()],
            "inputs": [asdict(item) for item in self.fields()],
            "mentions": [{"text": span.text, "id": span.target} for span in spans if span.kind == "mention"],
            "links": links,
            "images": [span.target for span in spans if span.kind == "image"],
        }

    def lines(self) -> list[str]:
        """Every text of the body, line by line."""
        texts = [markup.text_of(part.spans) for part in self.flat() if part.kind in ("text", "other")]
        return [line for text in texts for line in text.split("\n")]


def draw(card: dict[str, Any]) -> View:
    """Draws a card that the card check has let through."""
    header = card.get("header", {})
    return View(
        title=_text(header.get("title")),
        subtitle=_text(header.get("subtitle")),
        template=header.get("template", "default"),
        tags=[markup.text_of(_text(tag.get("text"))) for tag in header.get("text_tag_list", [])],
        parts=_draw_all(card["body"]["elements"], ""),
        link=card.get("card_link", {}).get("url", ""),
    )


def _button_json(button: Button) -> dict[str, Any]:
    return {
        **asdict(button),
        "live": not button.dead_because,
        "dead_because": button.dead_because,
    }


def _flatten(parts: list[Part]) -> list[Part]:
    found: list[Part] = []
    for part in parts:
        found.append(part)
        found += _flatten(part.parts)
        for column in part.columns:
            found += _flatten(column)
    return found


def _text(value: dict[str, Any] | None) -> list[Span]:
    if not value:
        return []
    content = value.get("content", "")
    return markup.markdown(content) if value.get("tag") == "lark_md" else markup.plain(content)


def _draw_all(elements: list[dict[str, Any]], form: str) -> list[Part]:
    return [part for element in elements for part in _draw_one(element, form)]


def _draw_one(element: dict[str, Any], form: str) -> list[Part]:
    match element["tag"]:
        case "div":
            texts = [element.get("text"), *(item["text"] for item in element.get("fields", []))]
            return [Part("text", spans=_text(text)) for text in texts if text]
        case "markdown":
            return [Part("text", spans=markup.markdown(element["content"]))]
        case "hr":
            return [Part("hr")]
        case "button":
            return [Part("button", button=_button(element, form))]
        case "input" | "select_static":
            return [Part("field", field=_field(element, form))]
        case "column_set":
            return [
                Part(
                    "columns",
                    columns=[_draw_all(column.get("elements", []), form) for column in element["columns"]],
                )
            ]
        case "form":
            return [Part("form", parts=_draw_all(element["elements"], element["name"]), name=element["name"])]
        case tag if tag in OTHER_TAGS:
            return [Part("other", spans=markup.plain(f"[{tag}]"))]
        case _:
            title = _text(element.get("header", {}).get("title"))
            shown = [Part("text", spans=title)] if title else []
            return [Part("box", parts=shown + _draw_all(element["elements"], form))]


def _button(element: dict[str, Any], form: str) -> Button:
    behaviors = element.get("behaviors", [])
    callback = next((item for item in behaviors if item["type"] == "callback"), None)
    confirm = element.get("confirm", {})
    action = element.get("form_action_type") or element.get("action_type", "").removeprefix("form_")
    return Button(
        name=element.get("name", ""),
        text=markup.text_of(_text(element.get("text"))),
        type=element.get("type", "default"),
        disabled=element.get("disabled", False),
        form=form,
        submit=bool(form) and action == "submit",
        reset=bool(form) and action == "reset",
        callback=callback is not None,
        value=callback.get("value") if callback else None,
        url=next((item["default_url"] for item in behaviors if item["type"] == "open_url"), ""),
        confirm_title=markup.text_of(_text(confirm.get("title"))),
        confirm_text=markup.text_of(_text(confirm.get("text"))),
    )


def _field(element: dict[str, Any], form: str) -> Field:
    return Field(
        name=element.get("name", ""),
        form=form,
        required=element.get("required", False),
        max_length=element.get("max_length", 1000),
        multiline=element.get("input_type") == "multiline_text",
        secret=element.get("input_type") == "password",
        rows=element.get("rows", 5),
        label=markup.text_of(_text(element.get("label"))),
        placeholder=markup.text_of(_text(element.get("placeholder"))),
        value=element.get("default_value", ""),
        disabled=element.get("disabled", False),
        options=[(item["value"], markup.text_of(_text(item["text"]))) for item in element.get("options", [])],
    )
