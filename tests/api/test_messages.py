"""`POST /channels/{slug}/messages`."""

import pytest
import time_machine

from channels_app.models import Delivery
from tests import make
from tests.api.client import Api

PATH = "/channels/ops-feishu/messages"
TEXT = {"text": "The report is ready.\nSee the drive.", "agent": "procurement"}


@pytest.fixture
def channel(world):
    """acme's channel."""
    return make.channel(world.acme)


def test_a_notice_goes_into_the_outbox(world, channel):
    answer = world.runtime.post(PATH, TEXT)
    assert (answer.status, answer.body["recipients"]) == (202, 1)
    row = Delivery.objects.get()
    assert (row.channel, row.organization, row.status) == (channel, world.acme, "queued")
    assert row.topic == f"notice:{answer.body['id']}"
    assert row.card["tone"] == "notice"
    assert row.card["buttons"] == []
    assert "Procurement" in row.card["title"]
    assert row.card["body"] == TEXT["text"]


def test_every_notice_is_a_card_of_its_own(world, channel):
    ids = {world.runtime.post(PATH, TEXT).body["id"] for _ in range(2)}
    assert len(ids) == Delivery.objects.count() == 2


def test_30_a_minute_per_agent_then_429_with_the_time_to_wait(world, channel):
    with time_machine.travel("2026-11-02T09:30:00Z", tick=False) as traveller:
        for _ in range(30):
            assert world.runtime.post(PATH, TEXT).status == 202
        refused = world.runtime.post(PATH, TEXT)
        assert (refused.status, refused.code) == (429, "too_many_notices")
        # The first of them still counts when it is 60 seconds old.
        assert int(refused.headers["Retry-After"]) == 61
        assert Delivery.objects.count() == 30
        assert world.runtime_of_acme.post(PATH, {**TEXT, "agent": "reports"}).status == 202
        traveller.shift(61)
        assert world.runtime.post(PATH, TEXT).status == 202


def test_a_switched_off_channel_is_409_and_costs_no_notice(world, channel):
    channel.enabled = False
    channel.save()
    refused = world.runtime.post(PATH, TEXT)
    assert (refused.status, refused.code) == (409, "channel_disabled")
    assert not Delivery.objects.exists()


def test_channels_and_agents_out_of_reach_are_not_there(world, channel):
    make.channel(world.beta, "beta-feishu", config={"app_id": "cli_9"})
    assert world.runtime.post("/channels/beta-feishu/messages", TEXT).status == 404
    assert world.runtime_of_beta.post(PATH, TEXT).status == 404
    assert world.runtime.post(PATH, {**TEXT, "agent": "reports"}).status == 404
    assert world.runtime.post(PATH, {**TEXT, "agent": str(world.theirs.pk)}).status == 404
    for odd in ("%00", "UPPER", "x" * 300, "a%0A"):
        assert world.runtime.post(f"/channels/{odd}/messages", TEXT).status == 404
    assert not Delivery.objects.exists()


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ({}, {"text", "agent"}),
        ({**TEXT, "text": ""}, {"text"}),
        ({**TEXT, "text": "x" * 4001}, {"text"}),
        ({**TEXT, "text": ["x"]}, {"text"}),
        ({**TEXT, "agent": None}, {"agent"}),
        ({**TEXT, "title": "Approve"}, {"title"}),
    ],
)
def test_a_bad_field_is_named(world, channel, body, paths):
    refused = world.runtime.post(PATH, body)
    assert (refused.status, set(refused.paths)) == (400, paths)


def test_the_scope_notify_is_needed(world, channel):
    refused = Api(make.key(world.acme, scopes=["registry"])).post(PATH, TEXT)
    assert (refused.status, refused.code) == (403, "scope_missing")
