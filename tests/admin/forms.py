"""Fills in the admin's forms as a browser would."""

from html.parser import HTMLParser
from typing import Any

from django.test import Client


class _Form(HTMLParser):
    """Collects what a form sends if nobody touches it. ``sent`` has a list of values for each name."""

    def __init__(self, form_id: str) -> None:
        super().__init__()
        self._form_id = form_id
        self._inside = False
        self._select = ""
        self._text: tuple[str, list[str]] | None = None
        self.sent: dict[str, list[str]] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Buttons send nothing here; neither does a row's empty template."""
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._inside = given.get("id") == self._form_id
        name = given.get("name", "")
        if not self._inside or "__prefix__" in name or "disabled" in given:
            return
        if tag == "input" and name and given.get("type") not in ("submit", "button"):
            if given.get("type") not in ("checkbox", "radio") or "checked" in given:
                default = "on" if given.get("type") == "checkbox" else ""
                self.sent.setdefault(name, []).append(given.get("value", default))
        elif tag == "select":
            self._select = name
        elif tag == "option" and self._select and "selected" in given:
            self.sent.setdefault(self._select, []).append(given.get("value", ""))
        elif tag == "textarea" and name:
            self._text = (name, [])

    def handle_data(self, data: str) -> None:
        """The text of a text area."""
        if self._text is not None:
            self._text[1].append(data)

    def handle_endtag(self, tag: str) -> None:
        """Close what was open."""
        if tag == "form":
            self._inside = False
        elif tag == "select":
            self._select = ""
        elif tag == "textarea" and self._text is not None:
            name, parts = self._text
            # A browser leaves out the line break that directly follows the tag.
            text = "".join(parts)
            self.sent.setdefault(name, []).append(text.removeprefix("\r\n").removeprefix("\n"))
            self._text = None


def fill(answer: Any) -> dict[str, Any]:
    """What the form of an admin page would send."""
    form = _Form(f"{answer.context['opts'].model_name}_form")
    form.feed(answer.content.decode())
    assert form.sent, "there is no form"
    return dict(form.sent)


def errors(answer: Any) -> str:
    """Every error that a page shows, as text."""
    if answer.context is None:
        return ""
    found = [str(answer.context["adminform"].form.errors)]
    found += [str(inline.formset.errors) for inline in answer.context["inline_admin_formsets"]]
    return " ".join(found)


def save(browser: Client, address: str, **values: Any) -> Any:
    """Load a form, change some values, send it."""
    return browser.post(address, {**fill(browser.get(address)), **values})
