"""A world with room for many requests."""

import logging
from collections.abc import Iterator

import pytest

from portal.serving import lanes
from tests.confirmations import world as worlds
from tests.confirmations.world import World
from tests.races import crowd


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """The lines that tens of thousands of requests log take a quarter of the time."""
    logging.disable(logging.INFO)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty-four at once on a busy machine take longer than a person's client waits; tests/outages is about that."""
    table = tuple(lanes.Patience(one.prefix, crowd.PATIENCE, one.strict) for one in lanes.TABLE)
    monkeypatch.setattr(lanes, "TABLE", table)


@pytest.fixture
def world(transactional_db: None) -> World:
    """A world whose agent may have as many requests as the rounds need."""
    built = worlds.build()
    # A busy machine may take minutes over a round; none of these races is about that.
    built.set_policy(timeout_seconds=3600, start_by_seconds=3600)
    built.set_agent(max_pending=10000)
    return built
