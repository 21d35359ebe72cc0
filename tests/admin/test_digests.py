"""A digest of arguments of which a part is hidden tells that part: people read none, wherever they look."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from hookgate import canonical

from hooks_app import calls, confirmations
from hooks_app.models import ConfirmationRequest, ConnectorCallLog
from portal import audit
from portal.admin.site import site
from portal.lib import clock
from portal.lib.problems import Problem
from portal.models import AuditEvent, User
from portal.people import tokens
from tests import make
from tests.api.client import Api
from tests.confirmations import world as worlds
from tests.confirmations.world import World

ARGS = {"amount": 60000, "card_number": "4711"}
DIGEST = canonical.digest(ARGS)


@pytest.fixture
def world(db: None) -> World:
    """A request whose PIN is hidden was approved and used, and its call is in the log, once without its arguments."""
    world = worlds.build()
    row = world.approve(world.ask(tool_args=ARGS), world.bob)
    with pytest.raises(Problem, match="args_mismatch") as refused:
        confirmations.consume(request=row, args_digest=canonical.digest({}), attempt=uuid.uuid4())
    assert DIGEST not in refused.value.detail
    confirmations.consume(request=row, args_digest=DIGEST, attempt=uuid.uuid4())
    for args in ({"amount": 60000, "card_number": "[redacted]"}, None):
        entry = calls.Entry(
            agent=world.agent,
            id=uuid.uuid4(),
            tool_name="oa__purchase_pay",
            status="succeeded",
            started_at=clock.now(),
            args=args,
            args_digest=DIGEST,
            confirmation_id=row.pk,
        )
        calls.store([entry], runtime="worker-1")
    # As an earlier release recorded it.
    audit.append(
        organization=world.organization, actor=audit.SHELL, action="confirmation.consumed", kind="confirmation",
        id=row.pk, name="old", data={"attempt": "a", "args_digest": DIGEST},
    )  # fmt: skip
    return world


def pages(world: World) -> Iterator[str]:
    """Every list and every object that the admin has, and the pages of the inbox."""
    for model in site._registry:
        name = f"{model._meta.app_label}_{model._meta.model_name}"
        yield reverse(f"admin:{name}_changelist")
        for row in model._default_manager.all()[:20]:
            yield reverse(f"admin:{name}_change", args=[row.pk])
            yield reverse(f"admin:{name}_history", args=[row.pk])
    yield "/inbox/"
    yield "/inbox/history/"
    yield f"/inbox/{ConfirmationRequest.objects.get().pk}/"


def test_no_page_shows_a_digest_of_what_is_hidden(world: World) -> None:
    User.objects.filter(pk=world.alice.pk).update(is_superuser=True, is_staff=True)
    browser = Client()
    browser.force_login(world.alice, backend="django.contrib.auth.backends.ModelBackend")
    shown = {page: browser.get(page) for page in pages(world)}
    assert sum(answer.status_code == 200 for answer in shown.values()) > 30
    secret = DIGEST.removeprefix("sha256:")
    assert [page for page, answer in shown.items() if secret in answer.content.decode()] == []


def test_no_answer_to_a_person_has_one_and_the_runtimes_do(world: World) -> None:
    row = ConfirmationRequest.objects.get()
    call = ConnectorCallLog.objects.first()
    assert call is not None
    paths = [
        f"/confirmations/{row.pk}", f"/confirmations/{row.pk}?wait=1", "/confirmations", "/calls", f"/calls/{call.pk}",
    ]  # fmt: skip
    person = Api(tokens.issue(user=world.alice, scopes=("read", "decide"), actor=audit.SHELL)[1])
    answers: list[Any] = [person.get(path) for path in paths]
    answers.append(person.post(f"/confirmations/{row.pk}/respond", {"decision": "reject"}))
    voter = Api(tokens.issue(user=world.bob, scopes=("read", "decide"), actor=audit.SHELL)[1])
    answers.append(voter.post(f"/confirmations/{row.pk}/respond", {"decision": "approve"}))
    assert [answer.status for answer in answers] == [200, 200, 200, 200, 200, 409, 200]
    assert [DIGEST in str(answer.body) for answer in answers] == [False] * len(answers)
    tags = {answers[0].body["args_tag"], answers[4].body["args_tag"], answers[6].body["args_tag"]}
    assert len(tags) == 1
    runtime = Api(make.key(world.organization)).get(f"/confirmations/{row.pk}")
    assert (runtime.body["requested_digest"], runtime.body["args_digest"]) == (DIGEST, DIGEST)


def test_the_trail_keeps_none(world: World) -> None:
    kept = [event.data for event in AuditEvent.objects.exclude(object_name="old")]
    assert DIGEST not in str(kept)
    assert sum("args_tag" in data for data in kept) == 2
