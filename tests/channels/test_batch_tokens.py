"""The access tokens of a batch: fetched once for each app, whatever the platform does."""

import pytest

from channels_app.models import Delivery
from channels_app.outbox import dispatch
from channels_app.sandbox.server import SandboxServer
from tests.channels.conftest import again, fail, replace
from tests.channels.test_batches import calls, deliver, statuses
from tests.channels.test_batches import chats as chats  # a fixture
from tests.channels.test_batches import rows as rows  # a fixture


def test_each_apps_token_is_fetched_once(rows: list[Delivery], server: SandboxServer) -> None:
    deliver(rows)
    assert calls(server, "token") == 4
    server.control("tokens/invalidate")
    replace()
    assert deliver(rows) == 12
    assert calls(server, "token") == 8
    assert {again(row).shown_version for row in rows} == {2}


def test_a_token_that_is_refused_fails_the_cards_of_its_app_alone(
    rows: list[Delivery], server: SandboxServer
) -> None:
    server.sandbox.directory.app(rows[0].channel.app.key).app_secret = "another"
    assert deliver(rows) == 12
    assert statuses(rows) == ["failed"] * 3 + ["sent"] * 9
    assert (again(rows[0]).last_error or "").startswith("10015")


def test_a_token_in_vain_is_asked_for_once_for_each_app(rows: list[Delivery], server: SandboxServer) -> None:
    fail(server, "token", status=502, body={}, count=99)
    assert deliver(rows) == 4
    assert calls(server, "token") == 4
    assert sorted(again(row).attempts for row in rows) == [0] * 8 + [1] * 4
    assert {again(row).lease for row in rows} == {None}


def test_a_token_that_holds_everybody_up_is_the_last_one_that_is_fetched(
    rows: list[Delivery], server: SandboxServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are for the next worker, and each batch brings something on."""
    monkeypatch.setattr(dispatch, "BEGIN", 0.25)
    fail(server, "token", delay_ms=400, count=4)
    made = [deliver(rows)]
    assert calls(server, "token") == 1
    while sum(made) < 12 and len(made) < 30:
        made.append(deliver(rows))
    assert (sum(made), calls(server, "token")) == (12, 4)
    assert set(statuses(rows)) == {"sent"}
