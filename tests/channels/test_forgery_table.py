"""Every forgery has its exact answer, and leaves the whole database as it was.

Each is undone before the next, and after all of them the genuine tap must approve: nothing but the forgery was refused.
"""

from dataclasses import replace
from typing import Any

import pytest
from django.conf import settings
from django.test import TestCase

from channels_app.adapters import feishu_callback
from channels_app.models import App, Interaction
from portal.models import Membership
from portal.wakeups import wakeups
from tests import make
from tests.channels import forging
from tests.channels.forgeries import GROUPS, NOT_DECODABLE, Row, skewed
from tests.channels.forging import KEY, SIGNATURE, TOKEN, Scene, Sent, seal, sign
from tests.conftest import Clock


@pytest.fixture
def scene(db: None, time: Clock) -> Scene:
    return forging.build()


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The topics that were woken since the list was emptied."""
    topics: list[str] = []
    monkeypatch.setattr(wakeups, "publish", lambda *given: topics.extend(given))
    return topics


def faults(scene: Scene, row: Row, woken: list[str]) -> dict[str, Any]:
    """What of the row doesn't hold; empty if it does."""
    status, word, spoil = row
    heard = status == 200
    woken.clear()
    with forging.undone():
        sent = spoil(scene)
        before = forging.rows(without_log=heard)
        with TestCase.captureOnCommitCallbacks(execute=True):
            answer = scene.post(sent)
        after = forging.rows(without_log=heard)
        found: dict[str, Any] = {
            "answer": (answer.status, answer.word) != (status, word) and (answer.status, answer.word),
            "changed": [name for name in before if before[name] != after[name]],
            "woken": list(woken),
            "interactions": Interaction.objects.count() != int(heard),
            "tells a secret": KEY.encode() in answer.body,
        }
    return {name: fault for name, fault in found.items() if fault}


@pytest.mark.parametrize("group", GROUPS)
def test_each_forgery_has_its_answer_and_no_effect(scene: Scene, woken: list[str], group: str) -> None:
    found = {name: faults(scene, row, woken) for name, row in GROUPS[group].items()}
    assert {name: fault for name, fault in found.items() if fault} == {}
    with TestCase.captureOnCommitCallbacks(execute=True):
        assert scene.post(scene.tap()).word == "accepted"
    assert forging.status(scene) == "approved"
    assert f"confirmation:{scene.row.pk}" in woken


@pytest.mark.parametrize("seconds", [-300, -299, 299, 300])
def test_the_edges_of_the_window_are_inside(scene: Scene, seconds: int) -> None:
    assert scene.post(skewed(seconds)(scene)).word == "accepted"
    assert forging.status(scene) == "approved"


def test_the_same_bytes_again_have_no_second_effect(
    scene: Scene, time: Clock, django_capture_on_commit_callbacks: Any
) -> None:
    sent = scene.tap()
    first = scene.post(sent)
    assert (first.status, first.word) == (200, "accepted")
    make.channel(scene.world.organization, "spare")
    before = forging.rows()
    spare = replace(sent, path="/channels/acme/spare/callback")
    with django_capture_on_commit_callbacks() as promised:
        for again in (sent, spare, sent.but(X_Forwarded_For="10.0.0.1")):
            answer = scene.post(again)
            assert (answer.status, answer.body) == (200, first.body)
        time.advance(seconds=301)
        assert scene.post(sent).status == 401
    assert (forging.rows(), promised) == (before, [])


def test_the_same_bytes_of_a_refused_tap_stay_refused(scene: Scene) -> None:
    """Bob isn't an approver when he taps; his old bytes don't decide once he is one."""
    Membership.objects.filter(user=scene.world.bob).update(role="member")
    sent = scene.tap()
    assert scene.post(sent).word == "refused"
    Membership.objects.filter(user=scene.world.bob).update(role="approver")
    before = forging.rows()
    assert scene.post(sent).status == 200
    assert forging.rows() == before


def test_what_cannot_be_decoded_is_told_nothing_of_why(scene: Scene) -> None:
    """Padding, key, base64 and JSON fail with the same bytes: nobody can ask the portal to decrypt for them."""
    names = (
        "not base64",
        "a byte short",
        "padding of nought",
        "padding uneven",
        "another key",
        "no JSON inside",
    )
    assert len({scene.post(NOT_DECODABLE[name][2](scene)).body for name in names}) == 1
    without = {scene.post(Sent(NOT_DECODABLE[name][2](scene).body)).body for name in names}
    assert len(without) == 1
    # A readable one that isn't signed is not told from them either.
    assert without == {scene.post(Sent(scene.tap().body)).body}


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[" * 100_000, seal("no JSON"), b'{"encrypt": "AAAA"}'],
    ids=["empty", "cut off", "nested", "sealed", "short"],
)
def test_nothing_is_read_before_the_signature_holds(
    scene: Scene, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*args: Any, **more: Any) -> Any:
        raise AssertionError("the body was read")

    monkeypatch.setattr(feishu_callback, "_open", read)
    assert scene.post(sign(body, key="other")).status == 401
    assert scene.post(sign(body, seconds=-301)).status == 401


def test_secrets_are_compared_in_constant_time(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of signature, verification token and tenant go through one comparison, and nothing else decides."""
    compared: list[bytes] = []

    def never(left: bytes, right: bytes) -> bool:
        compared.append(left)
        return len(compared) < wanted

    monkeypatch.setattr("hmac.compare_digest", never)
    sent = scene.tap()
    secrets = [(401, sent.headers[SIGNATURE]), (401, TOKEN), (403, forging.TENANT)]
    for wanted, (status, secret) in enumerate(secrets, start=1):
        compared.clear()
        assert (scene.post(sent).status, len(compared)) == (status, wanted)
        assert compared[-1] == secret.encode()


def test_the_first_authentic_tap_on_a_card_teaches_the_tenant_and_no_forged_one(scene: Scene) -> None:
    App.objects.update(tenant_key="")
    stranger = scene.payload(context=scene.context("om_made_up"))
    stranger["header"]["tenant_key"] = "tenant2"
    assert scene.post(sign(seal(stranger))).word == "unknown_card"
    assert App.objects.get().tenant_key == ""
    assert scene.post(scene.tap()).word == "accepted"
    assert App.objects.get().tenant_key == forging.TENANT


def test_forgeries_leave_no_trace_of_the_body_in_an_answer(scene: Scene) -> None:
    assert not settings.DEBUG
    marker = "m4rk3r"
    for body in (marker.encode(), seal(marker), seal({"header": {"event_id": [marker]}, "event": {}})):
        answer = scene.post(sign(body))
        assert answer.status == 400
        assert marker.encode() not in answer.body
