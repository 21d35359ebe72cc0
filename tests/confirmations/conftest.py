"""Fixtures of the confirmations' tests."""

from contextlib import AbstractContextManager
from typing import Any

import pytest

from portal.lib.problems import Problem
from tests.confirmations import world as worlds
from tests.confirmations.world import World


@pytest.fixture
def world(db: None) -> World:
    """See :class:`World`."""
    return worlds.build()


def refused(status: int, code: str) -> AbstractContextManager[Any]:
    """The block raises a Problem of this status and code."""
    return pytest.raises(Problem, match=rf"^{status} {code}:")
