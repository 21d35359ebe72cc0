"""How many SQL statements a page takes: exactly, and the same number for one row and for many."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from channels_app.models import Channel
from hooks_app.confirmations import Initiator
from tests import make
from tests.api.client import Api
from tests.api.test_calls import entry, send
from tests.api.test_statements import counted
from tests.confirmations import world as worlds
from tests.confirmations.world import World
from tests.conftest import Clock

# The session and the person are two of each.
PAGES = {
    "/inbox/": 13,
    "/inbox/history/": 6,
    "/admin/": 7,
    "/admin/hooks_app/agent/": 16,
    "/admin/hooks_app/confirmationrequest/": 10,
    "/admin/hooks_app/connectorcalllog/": 12,
    "/admin/hooks_app/runtimekey/": 8,
    "/admin/hooks_app/runtimeinstance/": 8,
    "/admin/hooks_app/connector/": 8,
    "/admin/hooks_app/approvalpolicy/": 7,
    "/admin/channels_app/channel/": 8,
    "/admin/channels_app/delivery/": 8,
    "/admin/channels_app/identity/": 7,
    "/admin/portal/auditevent/": 12,
    "/admin/portal/membership/": 7,
    "/admin/portal/user/": 8,
}


def grow(world: World, api: Api, numbers: range) -> None:
    """Another of everything, for each number; each request by another initiator."""
    for number in numbers:
        agent = make.agent(world.organization, f"agent-{number}")
        make.publish(agent)
        make.key(world.organization, agent)
        make.channel(world.organization, f"chat-{number}", config={"chat_id": f"oc_{number}"})
        world.bind(make.user(f"user-{number}", world.organization, "approver"), f"ou_{number}")
        world.ask(initiator=Initiator(id=f"u{number}", email=f"user-{number}@acme.test"))
        send(api, entry())


def measured(client: Client, path: str) -> list[str]:
    client.get(path)
    with CaptureQueriesContext(connection) as queries:
        assert client.get(path).status_code == 200
    return counted(queries)


@pytest.fixture
def world(db: None, time: Clock) -> World:
    return worlds.build()


def test_pages_take_the_same_statements_for_one_row_and_for_twenty(world: World) -> None:
    client = Client()
    client.force_login(world.alice, backend="django.contrib.auth.backends.ModelBackend")
    api = Api(make.key(world.organization, world.agent))
    grow(world, api, range(1))
    made = {path: measured(client, path) for path in PAGES}
    grow(world, api, range(1, 20))
    assert Channel.objects.count() > 20
    for path, number in PAGES.items():
        many = measured(client, path)
        assert len(many) == number, "\n".join([f"{path}: {len(many)}, not {number}", *many])
        assert len(made[path]) == number, "\n".join([f"{path}, one row: {len(made[path])}", *made[path]])
