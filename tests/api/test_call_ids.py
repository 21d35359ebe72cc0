"""Contract section 5 at the portal: ids of up to 8,192 characters, and requests from before delegates had paths."""

import hashlib
from typing import Any

import pytest

from hooks_app.models import ConfirmationRequest, ConnectorCallLog
from tests.api.client import Answer
from tests.api.conftest import confirmation
from tests.api.test_calls import entry

NOW = {"Hookgate-Contract": "3"}


def short(text: str) -> str:
    return text if len(text) <= 200 else text[:135] + "~" + hashlib.sha256(text.encode()).hexdigest()


def ask(world: Any, call_id: Any, headers: Any = NOW, **changes: Any) -> Answer:
    body = {**confirmation(world.procurement, tool_call_id=call_id), **changes}
    answer: Answer = world.runtime.post("/confirmations", body, headers=headers)
    return answer


@pytest.mark.parametrize("field", ["tool_call_id", "conversation_id"])
@pytest.mark.parametrize("text", ["x", "x" * 200, "x" * 201, "é" * 4572, "💰" * 8192, "a/b~c" * 100])
def test_a_long_id_is_shown_and_compared_by_its_short_form(world: Any, field: str, text: str) -> None:
    first = ask(world, "call_1", **{field: text})
    assert (first.status, first.body[field]) == (201, short(text))
    for same in (text, short(text)):
        again = ask(world, "call_1", **{field: same})
        assert (again.status, again.body["id"]) == (200, first.body["id"])
    if len(text) > 200:
        assert ask(world, "call_1", **{field: f"{text[:-1]}z"}).body["id"] != first.body["id"]
    read = world.runtime.get(f"/confirmations/{first.body['id']}")
    assert read.body[field] == short(text)


@pytest.mark.parametrize("field", ["tool_call_id", "conversation_id"])
@pytest.mark.parametrize("value", ["", "x" * 8193, 5, None, ["x"], {"id": "x"}, True])
def test_what_is_no_id_is_refused_by_name(world: Any, field: str, value: Any) -> None:
    refused = ask(world, "call_1", **{field: value})
    assert (refused.status, refused.code, refused.paths) == (400, "invalid", [field])
    assert not ConfirmationRequest.objects.exists()


def test_the_call_log_has_the_short_form_too(world: Any) -> None:
    call = entry(tool_call_id="t" * 8192, conversation_id="c" * 300)
    assert world.runtime.post("/calls", {"calls": [call]}).status == 202
    row = ConnectorCallLog.objects.get()
    assert (row.tool_call_id, row.conversation_id) == (short("t" * 8192), short("c" * 300))
    refused = world.runtime.post("/calls", {"calls": [entry(tool_call_id="t" * 8193)]})
    assert refused.paths == ["calls[0].tool_call_id"]


@pytest.mark.parametrize("path", ["0", "call_7", "a%2Fb", "0%2F1"])
def test_what_an_older_runtimes_delegate_had_asked_is_found_under_its_path(world: Any, path: str) -> None:
    before = ask(world, "call_1", headers=None)
    found = ask(world, f"{path}/call_1")
    assert (found.status, found.body["id"], found.body["tool_call_id"]) == (200, before.body["id"], "call_1")
    # Its id may have slashes of its own.
    before = ask(world, "x/y", headers=None)
    assert ask(world, f"{path}/x/y").body["id"] == before.body["id"]


@pytest.mark.parametrize(
    "changes",
    [{"tool_args": {"amount": 1}}, {"initiator": None}, {"conversation_id": "c8"}, {"tool_name": "oa__read"}],
    ids=lambda changes: next(iter(changes)),
)
def test_another_call_is_not_taken_for_the_older_one(world: Any, changes: dict[str, Any]) -> None:
    ask(world, "call_1", headers=None)
    assert ask(world, "0/call_1", **changes).status == 201


def test_calls_of_this_release_are_told_apart_by_their_paths(world: Any) -> None:
    answers = [ask(world, call_id) for call_id in ("call_1", "0/call_1", "1/call_1", "/call_1", "0/")]
    assert [answer.status for answer in answers] == [201] * 5
    assert len({answer.body["id"] for answer in answers}) == 5
