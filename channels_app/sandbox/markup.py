"""What the client draws from a string: nothing but characters in plain text, much more in markdown.

In doubt it draws: markup inside code spans and fences counts too, because whoever writes an argument may also write
the fence that ends the code.
"""

import html
import re
from dataclasses import dataclass

_ATTRIBUTE = re.compile(r"""([\w-]+)\s*=\s*("[^"]*"|'[^']*'|[^\s>/]+)""")
_TOKEN = re.compile(
    r"""
      \\(?P<escaped>[!-/:-@\[-`{-~])
    | (?P<entity>&(?:\#\d{1,7}|\#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});)
    | <(?P<mention>at|person)\b(?P<who>[^>]*)>(?:(?P<called>[^<]*)</(?P=mention)\s*>)?
    | <(?P<anchor>a|link)\b(?P<to>[^>]*)>(?P<inside>.*?)</(?P=anchor)\s*>
    | <raw>(?P<raw>.*?)</raw\s*>
    | <(?P<line>br|hr)\s*/?>
    | </?(?P<dressing>font|text_tag|number_tag|local_datetime|person|at|a|link)\b[^>]*>
    | <(?P<autolink>[A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]*)>
    | !\[(?P<alt>[^\]]*)\]\((?P<image>[^)]*)\)
    | ^\ {0,3}\[(?P<definition>[^\]]+)\]:\s*(?P<defined>\S+)
    | \[(?P<label>(?:\\.|[^\]\\])*)\]\(\s*(?P<url>[^)\s]*)[^)]*\)
    | (?P<bare>https?://[^\s<>()\[\]*`"']+)
    | `(?P<code>[^`\n]+)`
    | (?P<bold>\*\*|__)(?=\S)(?P<strong>.+?)(?<=\S)(?P=bold)
    | ~~(?=\S)(?P<struck>.+?)(?<=\S)~~
    | (?P<slant>[*_])(?=\S)(?P<italic>[^*_\n]+?)(?<=\S)(?P=slant)
    """,
    re.VERBOSE | re.IGNORECASE | re.MULTILINE | re.DOTALL,
)
_TEXT_TOKEN = re.compile(
    r"""<at\s+user_id\s*=\s*["']?(?P<who>[^"'>\s]*)["']?\s*>(?P<called>[^<]*)</at>|(?P<bare>https?://[^\s<>"']+)""",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Span:
    """A run of drawn text. `kind`: text, bold, italic, strike, code, mention, link, image, line. `target`: id, URL."""

    kind: str
    text: str
    target: str = ""


def plain(text: str) -> list[Span]:
    """A `plain_text` object: no character means anything."""
    return [Span("text", text)]


def message(text: str) -> list[Span]:
    """The `text` of a text message: `<at user_id=…>` mentions and bare URLs link; nothing else is processed."""
    spans: list[Span] = []
    end = 0
    for match in _TEXT_TOKEN.finditer(text):
        spans += [Span("text", text[end : match.start()])] if match.start() > end else []
        if match["bare"]:
            spans.append(Span("link", match["bare"], match["bare"]))
        else:
            spans.append(Span("mention", "@" + (match["called"] or match["who"]), match["who"]))
        end = match.end()
    return spans + ([Span("text", text[end:])] if end < len(text) else [])


def markdown(text: str, style: str = "text") -> list[Span]:
    """A `markdown` component or a `lark_md` object."""
    spans: list[Span] = []
    end = 0
    for match in _TOKEN.finditer(text):
        spans += [Span(style, text[end : match.start()])] if match.start() > end else []
        spans += _draw(match, style)
        end = match.end()
    return spans + ([Span(style, text[end:])] if end < len(text) else [])


def _draw(match: re.Match[str], style: str) -> list[Span]:
    if match["mention"]:
        return _mention(match)
    if match["anchor"]:
        return _anchor(match)
    if match["line"]:
        return [Span("line", "\n")]
    if match["dressing"]:
        return []
    for literal in ("escaped", "raw"):
        if match[literal] is not None:
            return [Span(style, match[literal])]
    if match["entity"]:
        return [Span(style, html.unescape(match["entity"]))]
    return _draw_styled(match)


def _draw_styled(match: re.Match[str]) -> list[Span]:
    for url, label in (
        ("autolink", "autolink"),
        ("bare", "bare"),
        ("defined", "definition"),
        ("url", "label"),
    ):
        if match[url] is not None:
            return [Span("link", html.unescape(match[label]) or match[url], match[url])]
    if match["image"] is not None:
        return [Span("image", match["alt"], match["image"])]
    for group, kind in (("strong", "bold"), ("struck", "strike"), ("italic", "italic"), ("code", "code")):
        if match[group] is not None:
            return markdown(match[group], kind)
    return [Span("text", match[0])]


def _mention(match: re.Match[str]) -> list[Span]:
    values = _attributes(match["who"])
    who = next((values[key] for key in ("id", "ids", "user_id", "email", "emails") if values.get(key)), "")
    return [Span("mention", "@" + (match["called"] or ("everyone" if who == "all" else who)), who)]


def _anchor(match: re.Match[str]) -> list[Span]:
    values = _attributes(match["to"])
    url = values.get("href") or values.get("url") or match["inside"]
    return [Span("link", html.unescape(match["inside"]) or url, url)]


def _attributes(text: str) -> dict[str, str]:
    return {name.lower(): value.strip("\"'") for name, value in _ATTRIBUTE.findall(text)}


def text_of(spans: list[Span]) -> str:
    """The characters that a person reads."""
    return "".join(span.text for span in spans)
