"""Cards as HTML. Every text is escaped here; the only links are http(s)."""

import datetime as dt
from html import escape

from channels_app.sandbox.card_view import Button, Field, Part, View
from channels_app.sandbox.directory import App, User
from channels_app.sandbox.markup import Span
from channels_app.sandbox.messages import Message

_STYLES = {"bold": "strong", "italic": "em", "strike": "s", "code": "code"}


def spans(items: list[Span]) -> str:
    return "".join(_span(item) for item in items)


def _span(item: Span) -> str:
    text = escape(item.text).replace("\n", "<br>")
    if item.kind in _STYLES:
        tag = _STYLES[item.kind]
        return f"<{tag}>{text}</{tag}>"
    if item.kind == "mention":
        return f'<span class="mention">{text}</span>'
    if item.kind == "link":
        return link(item.target, text)
    if item.kind == "line":
        return "<br>"
    return text if item.kind == "text" else f'<span class="image">[{text or "image"}]</span>'


def link(url: str, inner: str, css: str = "") -> str:
    if not url.lower().startswith(("http://", "https://")):
        return f'<span class="{css}" title="{escape(url)}">{inner}</span>'
    return f'<a class="{css}" href="{escape(url)}" target="_blank" rel="noopener noreferrer">{inner}</a>'


def message(item: Message, app: App, viewer: User) -> str:
    """One message as an article; `data-version` tells the page's script whether it has changed."""
    view = item.view()
    title = escape("".join(span.text for span in view.title) or "message")
    body = '<p class="gone">This message was recalled.</p>' if item.recalled else _content(item, view, viewer)
    edited = '<span class="edited">updated</span>' if item.versions else ""
    return (
        f'<article class="message" aria-label="{title}" data-message-id="{escape(item.message_id)}" '
        f'data-version="{item.version}-{int(item.recalled)}">'
        f'{avatar(app.name, "bot")}<div class="bubble-box">'
        f'<p class="who">{escape(app.name)}<span class="badge">BOT</span>{_time(item.sent_at)}{edited}</p>'
        f"{body}</div></article>"
    )


def _content(item: Message, view: View, viewer: User) -> str:
    if item.msg_type == "text":
        return f'<div class="bubble">{spans(view.parts[0].spans)}</div>'
    tags = "".join(f'<span class="tag">{escape(tag)}</span>' for tag in view.tags)
    subtitle = f'<p class="subtitle">{spans(view.subtitle)}</p>' if view.subtitle else ""
    header = (
        f'<header class="head {escape(view.template)}"><h3>{spans(view.title)}{tags}</h3>{subtitle}</header>'
    )
    hidden = (
        f'<input type="hidden" name="message_id" value="{escape(item.message_id)}">'
        f'<input type="hidden" name="version" value="{item.version}">'
        f'<input type="hidden" name="open_id" value="{escape(viewer.open_id)}">'
    )
    shown = header if view.title else ""
    return f'<section class="card">{shown}<div class="body">{parts(view.parts, hidden)}</div></section>'


def parts(items: list[Part], hidden: str, *, in_form: bool = False) -> str:
    return "".join(_part(item, hidden, in_form) for item in items)


def _part(item: Part, hidden: str, in_form: bool) -> str:
    match item.kind:
        case "hr":
            return "<hr>"
        case "button" if item.button is not None:
            return button(item.button, hidden, in_form)
        case "field" if item.field is not None:
            return field(item.field)
        case "columns":
            columns = "".join(
                f"<div>{parts(column, hidden, in_form=in_form)}</div>" for column in item.columns
            )
            return f'<div class="columns">{columns}</div>'
        case "form":
            inner = parts(item.parts, hidden, in_form=True)
            return f'<form method="post" action="click" class="card-form">{hidden}{inner}</form>'
        case "box":
            return f'<div class="box">{parts(item.parts, hidden, in_form=in_form)}</div>'
        case _:
            return f'<p class="text">{spans(item.spans)}</p>'


def button(item: Button, hidden: str, in_form: bool) -> str:
    """A button; outside a form it brings a form of its own, so that it works without script."""
    css = f"button {escape(item.type)}"
    text = escape(item.text)
    if item.url and not item.callback:
        return link(item.url, text, css)
    if item.reset:
        return f'<button type="reset" class="{css}">{text}</button>'
    if item.dead_because:
        off = " disabled" if item.disabled else ""
        return f'<button type="button" class="{css}"{off} title="{escape(item.dead_because)}">{text}</button>'
    confirm = ""
    if item.confirm_title:
        confirm = f' data-confirm-title="{escape(item.confirm_title)}" data-confirm-text="{escape(item.confirm_text)}"'
    # A button that submits nothing must not be held back by its form's required inputs.
    loose = "" if item.submit or not in_form else " formnovalidate"
    key = f'name="button" value="{escape(item.key)}"'
    html = f'<button type="submit" {key} class="{css}"{confirm}{loose}>{text}</button>'
    return html if in_form else f'<form method="post" action="click" class="press">{hidden}{html}</form>'


def field(item: Field) -> str:
    name = escape(item.label or item.placeholder or item.name)
    common = (
        f'name="field.{escape(item.name)}" aria-label="{name}" placeholder="{escape(item.placeholder)}" '
        f'maxlength="{item.max_length}"{" required" if item.required else ""}{" disabled" if item.disabled else ""}'
    )
    label = f'<span class="label">{escape(item.label)}</span>' if item.label else ""
    if item.options:
        rows = "".join(
            f'<option value="{escape(value)}">{escape(text)}</option>' for value, text in item.options
        )
        return f'{label}<select name="field.{escape(item.name)}" aria-label="{name}">{rows}</select>'
    if item.multiline:
        return f'{label}<textarea {common} rows="{item.rows}">{escape(item.value)}</textarea>'
    kind = "password" if item.secret else "text"
    return f'{label}<input type="{kind}" {common} value="{escape(item.value)}">'


def avatar(name: str, css: str = "") -> str:
    shade = sum(name.encode()) % 6
    return f'<span class="avatar shade-{shade} {css}" aria-hidden="true">{escape(name[:1].upper())}</span>'


def _time(at: float) -> str:
    when = dt.datetime.fromtimestamp(at, dt.UTC).astimezone()
    return f'<time datetime="{when.isoformat()}">{when:%H:%M}</time>'
