"""Fixtures of the inbox's tests: the confirmations' world, and people who are signed in."""

from collections.abc import Callable

import pytest
from django.test import Client

from portal.models import User
from tests.confirmations import world as worlds
from tests.confirmations.world import World


@pytest.fixture
def world(db: None) -> World:
    """See :class:`World`."""
    return worlds.build()


@pytest.fixture
def sign_in() -> Callable[[User], Client]:
    """A browser in which the person is signed in; forms need their CSRF token, as in the real one."""

    def client(user: User) -> Client:
        browser = Client(enforce_csrf_checks=True)
        browser.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
        return browser

    return client
