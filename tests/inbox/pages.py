"""Reads the inbox's pages."""

import re


def section(page: str, name: str) -> str:
    """The part of the page under the heading with this id; empty if it isn't there."""
    found = re.search(rf'<section aria-labelledby="{name}">(.*?)</section>', page, re.S)
    return found.group(1) if found else ""


def tools(page: str) -> list[str]:
    """The tools that are listed, in order."""
    return re.findall(r'<span class="tool">(.*?)</span>', page)


def token(page: str) -> str:
    """The CSRF token of the page's forms."""
    found = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
    assert found
    return found.group(1)


def buttons(page: str) -> list[str]:
    """The decisions that the page offers."""
    return re.findall(r'name="decision" value="(\w+)"', page)


def alert(page: str) -> str:
    """The refusal that the page shows."""
    found = re.search(r'role="alert">(.*?)</div>', page, re.S)
    return found.group(1) if found else ""
