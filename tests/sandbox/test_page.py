"""The page: what a person sees and does, without script over HTTP and with script in a browser."""

import json
import re
from pathlib import Path

import httpx
import pytest

from tests.sandbox.conftest import CHAT, DECIDED, card, pending, plain

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
ANSWER = {
    "toast": {"type": "success", "content": "Approved by Bob"},
    "card": {"type": "raw", "data": DECIDED},
}


def show(server, **query) -> str:
    answer = httpx.get(f"{server.base_url}/", params=query)
    assert answer.status_code == 200
    return answer.text


def click(server, message_id, button, **more) -> httpx.Response:
    form = {"message_id": message_id, "open_id": "ou_bob", "version": "0", "button": button, **more}
    return httpx.post(f"{server.base_url}/click", data=form, follow_redirects=True)


def test_the_card_is_drawn(api, server):
    api.sent(pending())
    text = show(server, **{"as": "ou_bob"})
    assert '<header class="head orange"><h3>Approval needed</h3></header>' in text
    assert "Tool: pay<br>Amount: 60000" in text
    assert re.search(
        r'<button type="submit" name="button" value="approve_1" class="button primary_filled">Approve<', text
    )
    assert re.search(r'<textarea name="field.reason" aria-label="Reason for rejecting"[^>]* required', text)
    assert "You are <strong>Bob</strong>" in text
    assert 'aria-current="true"' in text


def test_arguments_draw_nothing(api, server):
    text = "<script>alert(1)</script><at id=all></at> [x](https://evil.test) \"' onclick=x"
    api.sent(card({"tag": "div", "text": plain(text)}, title=text))
    page = show(server)
    assert "<script>alert" not in page
    assert "evil.test)" in page
    assert "href" not in page[page.index("<article") : page.index("</article>")]
    assert 'class="mention"' not in page


def test_links_are_only_http(api, server):
    api.sent(card({"tag": "markdown", "content": "[x](javascript:alert(1)) <a href='https://a.test'>y</a>"}))
    page = show(server)
    assert "javascript" not in re.findall(r'href="([^"]*)"', page).__str__()
    assert '<a class="" href="https://a.test" target="_blank" rel="noopener noreferrer">y</a>' in page


def test_a_press_without_script(api, server, peer):
    peer.answer(ANSWER)
    answer = click(server, api.sent(pending()), "approve_1")
    assert answer.status_code == 200
    assert answer.history[0].status_code == 303
    assert 'class="success">Approved by Bob</div>' in answer.text
    assert '<header class="head green"><h3>Approved</h3></header>' in answer.text
    assert '<button type="submit" name' not in answer.text
    assert peer.payload()["event"]["operator"]["open_id"] == "ou_bob"


def test_a_reject_without_script(api, server, peer):
    message_id = api.sent(pending())
    page = click(server, message_id, "reject_1", **{"field.reason": ""}).text
    assert "Reason for rejecting: is required" in page
    assert peer.requests == []
    click(server, message_id, "reject_1", **{"field.reason": "line 1\r\nline 2"})
    assert peer.payload()["event"]["action"]["form_value"] == {"reason": "line 1\nline 2"}


def test_a_press_on_a_page_that_was_not_refreshed(api, server, peer):
    message_id = api.sent(pending())
    api.update(message_id, DECIDED)
    click(server, message_id, "approve_1")
    assert peer.payload()["event"]["action"]["value"]["d"] == "approve"


def test_a_failed_press_says_so(api, server, peer):
    peer.answer({}, status=500)
    assert "Something went wrong (200671)" in click(server, api.sent(pending()), "approve_1").text


def test_another_site_cannot_press(api, server, peer):
    form = {"message_id": api.sent(pending()), "open_id": "ou_bob", "button": "approve_1"}
    answer = httpx.post(f"{server.base_url}/click", data=form, headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 403
    assert (
        httpx.post(
            f"{server.base_url}/sandbox-control/reset", headers={"Sec-Fetch-Site": "cross-site"}
        ).status_code
        == 403
    )
    assert peer.requests == []


def test_the_page_loads_nothing_from_elsewhere(server):
    answer = httpx.get(f"{server.base_url}/")
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    for path in re.findall(r'(?:src|href)="(static/[^"]+)"', answer.text):
        assert httpx.get(f"{server.base_url}/{path}").status_code == 200
    assert httpx.get(f"{server.base_url}/static/..%2fserver.py").status_code == 404


def test_people_see_only_their_chats(api, server, sandbox):
    sandbox.add_user("ou_dora", "Dora", "dora@acme.test")
    api.sent(pending())
    assert "Approval needed" not in show(server, **{"as": "ou_dora", "chat": CHAT})


@pytest.fixture
def browser():
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.mark.browser
def test_a_person_in_a_browser(api, server, peer, browser):
    peer.answer(ANSWER)
    confirm = {"title": plain("Approve this payment?"), "text": plain("It runs at once.")}
    page = browser.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.goto(f"{server.base_url}/")
    page.get_by_role("navigation", name="You are").get_by_role("link", name="Bob").click()
    message_id = api.sent(pending(confirm=confirm))  # appears without a reload
    pending_card = page.get_by_role("article", name="Approval needed")
    reason = pending_card.get_by_role("textbox", name="Reason for rejecting")
    reason.press_sequentially("half ")
    voted = pending(confirm=confirm)
    voted["body"]["elements"].insert(1, {"tag": "div", "text": plain("1 of 2 votes")})
    api.update(message_id, voted)
    pending_card.get_by_text("1 of 2 votes").wait_for(timeout=5000)
    page.keyboard.type("typed")  # the cursor is where it was
    api.sent(card(title="Another card"))
    page.get_by_role("article", name="Another card").wait_for(timeout=5000)
    assert reason.input_value() == "half typed"
    pending_card.get_by_role("button", name="Approve").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert peer.requests == []
    pending_card.get_by_role("button", name="Approve").click()
    page.get_by_role("dialog").get_by_role("button", name="Confirm").click()
    page.get_by_role("article", name="Approved").wait_for(timeout=5000)
    assert page.get_by_role("status").inner_text() == "Approved by Bob"
    assert page.get_by_role("button", name="Approve").count() == 0
    assert peer.payload()["event"]["operator"]["open_id"] == "ou_bob"
    assert problems == []


@pytest.mark.browser
def test_rejecting_in_a_browser(api, server, peer, browser):
    api.sent(pending())
    page = browser.new_page()
    page.goto(f"{server.base_url}/?as=ou_charlie")
    page.get_by_role("button", name="Reject").click()  # held back by the browser: the reason is empty
    assert peer.requests == []
    page.get_by_role("textbox", name="Reason for rejecting").fill("too expensive")
    peer.answer({"toast": {"type": "warning", "content": "Rejected"}})
    page.get_by_role("button", name="Reject").click()
    page.get_by_role("status").get_by_text("Rejected").wait_for(timeout=5000)
    assert peer.payload()["event"]["action"]["form_value"] == {"reason": "too expensive"}
    assert json.dumps(peer.payload()["event"]["operator"]).count("ou_charlie") == 1
