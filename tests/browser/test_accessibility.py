"""axe-core finds nothing on any page, in light and dark, and no page is without its landmarks."""

import itertools
import json
import re
from pathlib import Path
from typing import Literal

import pytest
import unfold
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.browser.conftest import Agent, Open
from tests.docs.tables import ROOT
from tests.soak import counts

pytestmark = pytest.mark.browser
ADMIN = "/admin/hooks_app"
# One page of each kind; what is behind a row or a button is opened below.
PAGES = [
    "/inbox/",
    "/inbox/history/",
    "/inbox/invitations/",
    "/password/",
    "/admin/",
    f"{ADMIN}/agent/",
    f"{ADMIN}/confirmationrequest/",
    f"{ADMIN}/connectorcalllog/",
    f"{ADMIN}/runtimekey/add/",
    f"{ADMIN}/approvalpolicy/add/",
    f"{ADMIN}/connector/add/",
    "/admin/channels_app/channel/",
    "/admin/channels_app/channel/add/",
    "/admin/channels_app/channel/add/?type=feishu",
    "/admin/portal/auditevent/",
    "/admin/portal/user/",
    "/admin/portal/user/add/",
    "/admin/portal/organization/",
]
OF_AGENT = ["change", "registry", "add_hook", "publish", "halt", "rollback"]
AXE = Axe()
SCHEMES: list[Literal["light", "dark"]] = ["light", "dark"]
IN_TURN = itertools.cycle(SCHEMES)
# The admin's theme has its own switch.
THEME = "scheme => document.querySelector('html[x-data]')?.classList.toggle('dark', scheme == 'dark')"


def faults(page: Page) -> list[str]:
    """What axe finds, in light and in dark: scheme, rule, impact, and the first element.

    `make test` looks at every page in one of the two, and in the other at the next; `make soak` in both.
    """
    # Colours that fade in are no colours yet.
    page.add_style_tag(
        content="*, *::before, *::after { transition: none !important; animation: none !important }"
    )
    found = []
    for scheme in SCHEMES if counts.SOAK else [next(IN_TURN)]:
        page.emulate_media(color_scheme=scheme)
        page.evaluate(THEME, scheme)
        found += [
            f"{scheme}: {fault['id']} ({fault['impact']}): {fault['nodes'][0]['html'][:200]}"
            for fault in AXE.run(page).response["violations"]
        ]
    return found


def visit(page: Page, address: str) -> list[str]:
    """Open an address; what axe finds there, or the status if it isn't there."""
    answer = page.goto(address)
    assert answer is not None
    return faults(page) if answer.ok else [f"{answer.status} {page.title()}"]


def test_axe_finds_nothing(open_page: Open, agent: Agent) -> None:
    page = open_page(user="alice", bypass_csp=True)
    found = {address: visit(page, address) for address in PAGES}
    page.goto(f"{ADMIN}/agent/?q=procurement")
    page.get_by_role("link", name="procurement").first.click()
    for name in OF_AGENT:
        found[f"agent {name}"] = visit(page, re.sub(r"\w+/$", f"{name}/", page.url))
    page.goto(f"{ADMIN}/runtimekey/add/")
    page.get_by_label("Label").fill("one")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_text("never shown again").wait_for()
    found["a new key"] = faults(page)
    page.goto("/admin/portal/user/add/")
    page.get_by_label("Username").fill("kim")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("button", name="Make a link").click()
    page.get_by_text("never shown again").wait_for()
    found["a new link"] = faults(page)
    link = re.search(r"http://[^\s<]+/account/[\w-]+/", page.content())
    assert link is not None
    found["what the link leads to"] = visit(page, link[0])
    assert json.dumps({address: some for address, some in found.items() if some}, indent=1) == "{}"


def test_axe_finds_nothing_for_those_who_decide(open_page: Open, agent: Agent) -> None:
    page = open_page(bypass_csp=True)
    found = {"login": visit(page, "/login/"), "sandbox": visit(page, "/sandbox/?as=ou_bob")}
    waiting = agent.pay("PO-axe")
    page = open_page(user="bob", bypass_csp=True)
    page.get_by_role("link", name=re.compile("PO-axe")).click()
    page.get_by_role("button", name="Reject").wait_for()
    found["request"] = faults(page)
    page.get_by_role("button", name="Reject").click()
    assert waiting.result(20).blocked
    page.get_by_role("status").get_by_text("Rejected").wait_for()
    found["decided"] = faults(page)
    assert json.dumps({address: some for address, some in found.items() if some}, indent=1) == "{}"


def test_the_admins_frame_is_the_themes_with_a_landmark() -> None:
    """The theme has no main landmark, and no block where one could be put: its file is repeated with one."""
    theirs = (Path(unfold.__file__).parent / "templates" / "admin" / "base.html").read_text(encoding="utf-8")
    ours = (ROOT / "templates" / "admin" / "base.html").read_text(encoding="utf-8")
    assert ours.count("<main") == ours.count("</main>") == 1
    assert ours.replace("<main ", "<div ").replace("</main>", "</div>") == theirs
