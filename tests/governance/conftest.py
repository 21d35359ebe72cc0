"""Passwords are hashed quickly here: how dear they are is another test's matter."""

from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _cheap_passwords(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
