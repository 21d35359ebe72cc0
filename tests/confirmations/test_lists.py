"""Lists show how arguments begin, and read none of them."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from hookgate import canonical

from hooks_app.models import ConfirmationRequest
from portal import audit
from portal.lib import crypto
from portal.models import User
from portal.people import tokens
from tests.confirmations import world as worlds
from tests.confirmations.world import World

ROWS, SIZE = 12, 60_000


@pytest.fixture
def crowded(db: None) -> World:
    """A world with requests of 60 KB each."""
    world = worlds.build()
    for number in range(ROWS):
        world.ask(tool_args={"text": "x" * SIZE, "number": number})
    return world


@pytest.fixture
def decrypted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of what was decrypted."""
    sizes: list[int] = []
    plain = crypto.decrypt

    def spy(token: str) -> bytes:
        data = plain(token)
        sizes.append(len(data))
        return data

    monkeypatch.setattr(crypto, "decrypt", spy)
    return sizes


def browser(user: User) -> Client:
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def token(user: User) -> dict[str, str]:
    return {"Authorization": f"Bearer {tokens.issue(user=user, scopes=('read',), actor=audit.SHELL)[1]}"}


LISTS: dict[str, Callable[[World], Any]] = {
    "inbox": lambda world: browser(world.bob).get("/inbox/"),
    "history": lambda world: browser(world.bob).get("/inbox/history/"),
    "api, person": lambda world: Client().get("/api/v1/confirmations", headers=token(world.bob)),
    "api, pending": lambda world: Client().get(
        "/api/v1/confirmations?status=pending", headers=token(world.bob)
    ),
    "admin": lambda world: browser(world.alice).get("/admin/hooks_app/confirmationrequest/"),
    "admin, filtered": lambda world: browser(world.alice).get(
        "/admin/hooks_app/confirmationrequest/?q=pay&status__exact=pending"
    ),
    "overview": lambda world: browser(world.alice).get("/admin/"),
    "agents": lambda world: browser(world.alice).get("/admin/hooks_app/agent/"),
    "agent": lambda world: browser(world.alice).get(f"/admin/hooks_app/agent/{world.agent.pk}/change/"),
    "deliveries": lambda world: browser(world.alice).get("/admin/channels_app/delivery/"),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_pays_for_no_arguments(name: str, crowded: World, decrypted: list[int]) -> None:
    ConfirmationRequest.objects.order_by("pk").filter(
        pk__in=list(ConfirmationRequest.objects.values_list("pk", flat=True)[: ROWS // 2])
    ).update(status="cancelled", ended_at=crowded.organization.created_at)
    decrypted.clear()
    with CaptureQueriesContext(connection) as captured:
        answer = LISTS[name](crowded)
    assert answer.status_code == 200
    assert len(answer.content) < 200_000
    assert max(decrypted, default=0) < 2000
    arguments = [query["sql"] for query in captured.captured_queries if '"args"' in query["sql"]]
    assert arguments == []


def test_the_api_has_the_excerpt_in_place_of_the_arguments(crowded: World) -> None:
    listed = LISTS["api, person"](crowded).json()["results"]
    assert len(listed) == ROWS
    for resource in listed:
        assert (resource["tool_args"], resource["approved_args"]) == (None, None)
        whole = Client().get(f"/api/v1/confirmations/{resource['id']}", headers=token(crowded.bob)).json()
        assert whole["tool_args"]["text"] == "x" * SIZE
        assert resource["excerpt"] == whole["excerpt"]
        assert resource | {"tool_args": None} == whole | {"tool_args": None}


@pytest.mark.parametrize(
    ("args", "excerpt"),
    [
        ({}, "{}"),
        ({"z": 1, "a": [True, None]}, '{"a":[true,null],"z":1}'),
        ({"card_number": "4111", "amount": 1}, '{"amount":1,"card_number":"[redacted]"}'),
        ({"a": "한\u200b\n" * 90}, '{"a":"' + "한\u200b\\n" * 38 + "한\u200b"),
        ({"b": "y" * 147}, '{"b":"' + "y" * 147 + '"}'),
    ],
)
def test_an_excerpt_is_the_first_160_characters_of_what_people_see(
    args: dict[str, Any], excerpt: str, world: World
) -> None:
    row = world.ask(tool_args=args)
    assert row.excerpt == excerpt[:160]
    (resource,) = Client().get("/api/v1/confirmations", headers=token(world.bob)).json()["results"]
    assert resource["excerpt"] == excerpt[:160]
    with connection.cursor() as cursor:
        cursor.execute("SELECT excerpt FROM hooks_app_confirmationrequest")
        assert "amount" not in cursor.fetchone()[0]


def test_the_inbox_shows_the_excerpt_and_what_hides_in_it(world: World) -> None:
    world.ask(tool_args={"to": "\u0410cme\u2066 " + "z" * 200})
    page = browser(world.bob).get("/inbox/").content.decode()
    assert "{&quot;to&quot;:&quot;⚠\u0410cme\\u2066 zzz" in page
    assert "zzz…</code>" in page


def test_requests_of_before_get_their_excerpts_in_batches(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    migration: Any = import_module("hooks_app.migrations.0006_request_excerpt")
    monkeypatch.setattr(migration, "BATCH", 2)
    made = [world.ask(tool_args={"number": number, "card_number": "4111"}) for number in range(5)]
    made.append(world.ask(tool_args={"number": 5}))
    ConfirmationRequest.objects.update(excerpt=None, is_redacted=True)
    with connection.cursor() as cursor:
        lost = "UPDATE hooks_app_confirmationrequest SET args = 'lost' WHERE tool_call_id = %s"
        cursor.execute(lost, [made[2].tool_call_id])
    migration.make_excerpts(apps, None)
    found = dict(ConfirmationRequest.objects.defer("args").values_list("pk", "excerpt"))
    assert [found[row.pk] for row in made] == [
        None
        if number == 2
        else canonical.canonicalize(
            {"number": number, **({"card_number": "[redacted]"} if number < 5 else {})}
        ).decode()
        for number, row in enumerate(made)
    ]
    assert not ConfirmationRequest.objects.only("pk").get(pk=made[5].pk).is_redacted
    assert ConfirmationRequest.objects.only("pk").get(pk=made[0].pk).is_redacted
