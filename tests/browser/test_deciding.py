"""People decide in a browser while a real runtime waits."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Agent, Open

pytestmark = pytest.mark.browser
SOON = 20.0  # seconds that a decision takes at most to reach the runtime


def test_a_click_in_the_sandbox_approves_the_waiting_payment(agent: Agent, open_page: Open) -> None:
    chat = open_page()
    chat.goto("/sandbox/?as=ou_bob")
    waiting = agent.pay("PO-7001")
    card = chat.locator("section.card", has_text="PO-7001")
    expect(card).to_contain_text("60000")
    expect(card).not_to_contain_text("4111 1111")
    assert not waiting.done()
    assert agent.paid == []
    card.get_by_role("button", name="Approve", exact=True).click()
    outcome = waiting.result(SOON)
    assert outcome.result == "paid 60000 for PO-7001"
    assert [paid["order"] for paid in agent.paid] == ["PO-7001"]
    expect(card).to_contain_text("Approved")
    expect(card.get_by_role("button", name="Approve", exact=True)).to_have_count(0)


def test_a_tap_of_somebody_else_changes_nothing(agent: Agent, open_page: Open) -> None:
    chat = open_page()
    chat.goto("/sandbox/?as=ou_charlie")
    waiting = agent.pay("PO-7002")
    card = chat.locator("section.card", has_text="PO-7002")
    card.get_by_role("button", name="Approve", exact=True).click()
    expect(chat.get_by_text(re.compile("may decide"))).to_be_visible()
    assert not waiting.done()
    bob = open_page(user="bob")
    bob.get_by_role("link", name=re.compile("PO-7002")).click()
    bob.get_by_role("button", name="Reject").click()
    assert waiting.result(SOON).blocked
    assert agent.paid == []


def test_the_inbox_shows_a_new_request_and_approves_it(agent: Agent, open_page: Open) -> None:
    page = open_page(user="bob")
    expect(page.get_by_text("Nothing waits for you")).to_be_visible()
    waiting = agent.pay("PO-7003")
    # Nobody reloads: the portal tells the page.
    page.get_by_role("link", name=re.compile("PO-7003")).click()
    expect(page.locator("pre.args")).to_contain_text('"amount": 60000')
    expect(page.locator("pre.args")).to_contain_text('"card_number": "[redacted]"')
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("status")).to_contain_text("Approved")
    assert waiting.result(SOON).result == "paid 60000 for PO-7003"


def test_the_inbox_works_without_javascript(agent: Agent, open_page: Open) -> None:
    waiting = agent.pay("PO-7004")
    page = open_page(user="bob", java_script_enabled=False)
    link = page.get_by_role("link", name=re.compile("PO-7004"))
    for _ in range(40):
        if link.count():
            break
        page.wait_for_timeout(100)
        page.reload()
    link.click()
    page.get_by_label("Reason (optional)").fill("wrong supplier")
    page.get_by_role("button", name="Reject").click()
    expect(page.get_by_role("status")).to_contain_text("Rejected")
    outcome = waiting.result(SOON)
    assert outcome.blocked
    assert "wrong supplier" in outcome.reason
    assert agent.paid == []


def test_a_reason_that_is_being_typed_survives_what_happens_meanwhile(agent: Agent, open_page: Open) -> None:
    page = open_page(user="bob")
    first = agent.pay("PO-7005")
    page.get_by_role("link", name=re.compile("PO-7005")).click()
    page.get_by_label("Reason (optional)").fill("half a rea")
    second = agent.pay("PO-7006")
    chat = open_page()
    chat.goto("/sandbox/?as=ou_bob")
    chat.locator("section.card", has_text="PO-7006").get_by_role("button", name="Reject").click()
    assert second.result(SOON).blocked
    expect(page.get_by_label("Reason (optional)")).to_have_value("half a rea")
    # Now somebody decides this one in the chat: the buttons go, the text stays to be copied.
    chat.locator("section.card", has_text="PO-7005").get_by_role("button", name="Reject").click()
    assert first.result(SOON).blocked
    expect(page.get_by_role("button", name="Reject")).to_have_count(0)
    expect(page.locator("#decide")).to_contain_text("half a rea")


def test_a_request_fits_a_phone(agent: Agent, open_page: Open) -> None:
    page = open_page(user="bob", viewport={"width": 360, "height": 740}, is_mobile=True, has_touch=True)
    waiting = agent.pay("PO-" + "7" * 300)
    page.get_by_role("link", name=re.compile("PO-777")).tap()
    approve = page.get_by_role("button", name="Approve")
    approve.scroll_into_view_if_needed()
    box = approve.bounding_box()
    assert box is not None
    assert box["height"] >= 44
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    approve.tap()
    assert not waiting.result(SOON).blocked
