"""Rows that are added in the admin are there to be filled in, and none is dropped without a word."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Open

pytestmark = pytest.mark.browser
ADMIN = "/admin/hooks_app"


@pytest.mark.parametrize(
    ("screen", "row", "button", "name"),
    [
        ("connector", "hr", "Add another Action", "badge_void"),
        ("agent", "procurement", "Add another Tool", "abacus"),
    ],
)
def test_an_added_row_is_open_and_saved(
    open_page: Open, screen: str, row: str, button: str, name: str
) -> None:
    page = open_page(user="alice")
    _open(page, screen, row)
    page.get_by_text(button).click()
    # Typed where the cursor is: the row is open, and its first field has it.
    expect(page.locator("input:focus")).to_have_attribute("name", re.compile("-name$"))
    page.keyboard.type(name)
    page.get_by_role("button", name="Save and continue editing").click()
    expect(page.get_by_text("was changed successfully").first).to_be_visible()
    expect(page.locator("h3", has_text=name)).to_be_visible()


def test_an_added_row_that_says_nothing_is_not_dropped(open_page: Open) -> None:
    page = open_page(user="alice")
    _open(page, "connector", "hr")
    page.get_by_text("Add another Action").click()
    expect(page.locator("input:focus")).to_have_attribute("name", re.compile("-name$"))
    page.evaluate("document.querySelectorAll('form').forEach(form => form.noValidate = true)")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("This field is required.").first).to_be_visible()


def _open(page: Page, screen: str, row: str) -> None:
    page.goto(f"{ADMIN}/{screen}/?q={row}")
    page.get_by_role("link", name=row, exact=True).first.click()
    page.wait_for_load_state()
