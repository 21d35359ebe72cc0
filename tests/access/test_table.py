"""Who may call which address: ``table.txt``, line by line. An address without a line fails; so does the reverse."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from django.template.response import SimpleTemplateResponse

from channels_app.adapters.feishu import FeishuAdapter
from portal import health, windows
from tests.access import asking, callers
from tests.access.callers import CALLERS, OURS, World
from tests.channels import forging
from tests.conftest import Clock

TABLE = Path(__file__).with_name("table.txt")


@dataclass(frozen=True)
class Line:
    """One line: ``codes`` has one character for each of ``columns``."""

    method: str
    route: str
    success: int
    columns: str
    codes: str

    def text(self, codes: str) -> str:
        """The line as it stands in the table, with other codes."""
        return f"{self.method:<5} {self.route:<68} {self.success} {codes}"


def lines() -> Iterator[Line]:
    """The table's lines; ``columns`` are those of the last heading above."""
    columns = ""
    for text in TABLE.read_text(encoding="utf-8").splitlines():
        if text.startswith("METHOD"):
            columns = text.split()[-1]
            assert set(columns) <= set(CALLERS)
        elif text and not text.startswith("#"):
            method, *route, success, codes = text.split()
            yield Line(method, " ".join(route), int(success), columns, codes)


LINES = list(lines())
API_LINES = [line for line in LINES if line.route.startswith(asking.API)]
PAGES = [line for line in LINES if line not in API_LINES]


@pytest.fixture
def world(db: None, time: Clock, monkeypatch: pytest.MonkeyPatch) -> World:
    windows.storage.cache_clear()
    monkeypatch.setattr(FeishuAdapter, "check", lambda self: [])
    monkeypatch.setattr(health, "checks", dict)
    # Who may see a page is judged before it is drawn, and drawing is most of the work; tests/admin draws them all.
    monkeypatch.setattr(SimpleTemplateResponse, "rendered_content", "")
    return callers.build()


def code(line: Line, status: int, location: str) -> str:
    """An answer in one character; whatever has none is written out."""
    if status == 302 and "/login/?next=" in location:
        return ">"
    if status == 302:
        return "-" if location == "/admin/" else "~"
    if status == line.success:
        return "."
    return {400: "0", 401: "1", 403: "3", 404: "4", 405: "5", 409: "9"}.get(status, f"({status})")


def found(world: World, line: Line) -> str:
    """The line's codes as they are, each caller in the same untouched world."""
    address = asking.address(world, line.method, line.route)
    text, kind = asking.body(world, line.method, line.route)
    codes = []
    for caller in line.columns:
        with forging.undone():
            headers = world.become(caller)
            answer = world.browser.generic(line.method, address, text, kind, headers=headers)
        codes.append(code(line, answer.status_code, answer.headers.get("Location", "")))
        content = b"" if answer.streaming else answer.content
        leaks = [mark for mark in world.foreign() if mark in content] if caller in OURS else []
        assert leaks == [], (line.route, CALLERS[caller])
    return "".join(codes)


def check(world: World, wanted: list[Line]) -> None:
    differ = [
        (line.text(line.codes), line.text(now))
        for line in wanted
        if (now := found(world, line)) != line.codes
    ]
    assert not differ, "\n".join(f"table: {old}\nfound: {new}" for old, new in differ)


def test_every_address_has_a_line_and_every_line_an_address() -> None:
    known = {line.route for line in LINES}
    there = {route or "." for route in asking.routes()} | asking.OUTSIDE
    assert there - known == set(), "an address without a line"
    assert known - there == set(), "a line without an address"
    assert len({(line.method, line.route) for line in LINES}) == len(LINES), "a line twice"


def test_every_page_has_a_line_for_reading_and_one_for_writing() -> None:
    methods = {line.route: {other.method for other in PAGES if other.route == line.route} for line in PAGES}
    assert {route: has for route, has in methods.items() if has != {"GET", "POST"}} == {}


def test_every_method_of_the_api_has_a_line() -> None:
    for pattern in asking.api_patterns():
        taken = set(pattern.callback.view_class.permits)
        assert {line.method for line in API_LINES if line.route == asking.API + str(pattern.pattern)} == taken


def test_the_api_answers_each_caller_as_the_table_says(world: World) -> None:
    check(world, API_LINES)


@pytest.mark.parametrize("section", ["portal", "channels_app", "hooks_app", ""])
def test_the_pages_answer_each_caller_as_the_table_says(world: World, section: str) -> None:
    screens = ("portal", "channels_app", "hooks_app")
    mine = {name: [line for line in PAGES if line.route.startswith(f"admin/{name}/")] for name in screens}
    rest = [line for line in PAGES if not any(line in part for part in mine.values())]
    check(world, mine.get(section, rest))
