"""Four eyes by identity: however the initiator is written, it is the same person or nobody."""

import unicodedata
import uuid
from importlib import import_module
from typing import Literal

import pytest
from django.apps import apps
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.db import connection
from django.test import Client

from hooks_app import calls, confirmations, digests
from hooks_app.config.apply import apply
from hooks_app.config.errors import ConfigInvalid
from hooks_app.confirmations import Initiator
from hooks_app.models import ConfirmationRequest, ConnectorCallLog
from portal import audit
from portal.lib import clock
from portal.models import User
from tests import make
from tests.confirmations.conftest import refused
from tests.confirmations.world import World, state

Form = Literal["NFC", "NFD", "NFKC", "NFKD"]
SPELLINGS = [
    " bob@acme.test", "BOB@ACME.test", "bob@acme.test.", "\uff42ob@acme.test", "bob@acme\u3002test", "bob@acme.test\t",
]  # fmt: skip


@pytest.mark.parametrize("email", SPELLINGS)
def test_no_spelling_of_the_address_lets_somebody_approve_their_own_call(world: World, email: str) -> None:
    row = world.ask(initiator=Initiator(id="x", email=email))
    assert (row.initiator_user, row.initiator["email"]) == (world.bob, "bob@acme.test")
    with refused(403, "self_approval"):
        world.approve(row, world.bob)
    assert confirmations.represent(row)["initiator_matched"] is True
    world.approve(row, world.carol)
    assert state(row) == "approved"


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_nor_does_a_unicode_form_of_it(world: World, form: Form) -> None:
    User.objects.filter(pk=world.bob.pk).update(email="Jos\u00e9@b\u00fccher.test")
    row = world.ask(
        initiator=Initiator(id="x", email=unicodedata.normalize(form, "jos\u00e9@B\u00dcCHER.test"))
    )
    with refused(403, "self_approval"):
        world.approve(row, world.bob)


@pytest.mark.parametrize(
    "email",
    [
        "Bob <bob@acme.test>",
        "bob@acme.test\u200b",
        "bo\u00adb@acme.test",
        "bob",
        "bob@acme.test,x@acme.test",
        " ",
    ],
)
def test_what_is_no_address_is_refused(world: World, email: str) -> None:
    with refused(400, "invalid") as problem:
        world.ask(initiator=Initiator(id="x", email=email))
    assert [error.path for error in problem.value.errors] == ["initiator.email"]
    assert not ConfirmationRequest.objects.exists()


@pytest.mark.parametrize("id", [" u42", "u42\u2060", "u\u200b42", "u42\n", "\u3164u42"])
def test_an_id_that_reads_as_another_is_refused(world: World, id: str) -> None:
    with refused(400, "invalid") as problem:
        world.ask(initiator=Initiator(id=id))
    assert "initiator.id" in [error.path for error in problem.value.errors]


def test_an_address_as_the_id_names_its_person(world: World) -> None:
    row = world.ask(initiator=Initiator(id="BOB@acme.test"))
    with refused(403, "self_approval"):
        world.approve(row, world.bob)


def test_the_same_call_in_another_spelling_is_the_same_call(world: World) -> None:
    row = world.ask(tool_call_id="c1", initiator=Initiator(id="x", email="bob@acme.test"))
    proposal = world.proposal(tool_call_id="c1", initiator=Initiator(id="x", email=" Bob@ACME.test"))
    again, is_new = confirmations.create(agent=world.agent, runtime="w", request=proposal)
    assert (again.pk, is_new) == (row.pk, False)


def test_a_request_that_an_older_release_stored_is_judged_by_the_normal_form(world: World) -> None:
    row = world.ask(initiator=Initiator(id="x", email="bob@acme.test"))
    ConfirmationRequest.objects.filter(pk=row.pk).update(
        initiator={"id": "x", "name": None, "email": " BOB@acme.test"}, initiator_user=None
    )
    with refused(403, "self_approval"):
        world.approve(row, world.bob)


def test_a_policy_may_want_a_known_initiator(world: World) -> None:
    world.set_policy(require_known_initiator=True)
    for initiator in (None, Initiator(id="u42", email="kim@elsewhere.test")):
        with refused(422, "initiator_unknown"):
            world.ask(initiator=initiator)
    assert world.ask(initiator=Initiator(id="x", email="dave@acme.test")).initiator_user == world.dave


def test_an_unknown_initiator_is_said_so_in_the_inbox(world: World) -> None:
    row = world.ask(initiator=Initiator(id="u42", email="kim@elsewhere.test"))
    browser = Client()
    browser.force_login(world.bob, backend="django.contrib.auth.backends.ModelBackend")
    assert "not known to the portal" in browser.get(f"/inbox/{row.pk}/").content.decode()
    known = world.ask(initiator=Initiator(id="x", email="dave@acme.test"))
    assert "not known to the portal" not in browser.get(f"/inbox/{known.pk}/").content.decode()


def test_people_get_no_digest_of_what_is_hidden(world: World) -> None:
    hidden = world.ask(tool_args={"amount": 1, "card_number": "0000"})
    open_ = world.ask(tool_args={"amount": 1})
    shown = confirmations.represent(hidden)
    assert (shown["requested_digest"], shown["args_digest"]) == (None, None)
    assert confirmations.represent(hidden, people=False)["args_digest"] == hidden.args_digest
    assert confirmations.represent(open_)["args_digest"] == open_.args_digest
    same = world.ask(tool_args={"card_number": "0000", "amount": 1})
    tags = [confirmations.represent(row)["args_tag"] for row in (hidden, same, open_)]
    assert tags[0] == tags[1] != tags[2]
    assert all(len(tag) == 64 for tag in tags)
    elsewhere = make.organization("other")
    assert digests.tag(elsewhere.pk, hidden.args_digest) != tags[0]


def migrate_addresses() -> None:
    """What the migration does to the accounts that there are."""
    migration = import_module("portal.migrations.0002_address_normal_form")
    migration.normalize(apps, connection.schema_editor())


def store(user: User, email: str) -> None:
    """Put an address there as an older release would have."""
    with connection.cursor() as cursor:
        key = user.pk.hex if connection.vendor == "sqlite" else user.pk
        cursor.execute("UPDATE portal_user SET email = %s WHERE id = %s", [email, key])


def test_migrate_stores_the_normal_form(world: World) -> None:
    store(world.bob, "Bob@ACME.test")
    store(world.carol, "no address")
    migrate_addresses()
    world.bob.refresh_from_db()
    world.carol.refresh_from_db()
    assert (world.bob.email, world.carol.email) == ("bob@acme.test", "no address")


@pytest.mark.parametrize(
    ("one", "other"), [("Bob@acme.test", "bob@acme.test"), ("jos\u00e9@a.test", "jose\u0301@a.test")]
)
def test_migrate_stops_where_two_accounts_would_be_one_person(world: World, one: str, other: str) -> None:
    outsider = make.user("outsider", make.organization("other"), "member")
    store(world.bob, one)
    store(outsider, other)
    store(world.carol, "CAROL@acme.test")
    with pytest.raises(CommandError) as stopped:
        migrate_addresses()
    assert "bob" in str(stopped.value)
    assert "outsider" in str(stopped.value)
    world.carol.refresh_from_db()
    assert world.carol.email == "CAROL@acme.test"


@pytest.mark.parametrize("external_id", ["ou\u200bbob", "ou_bob\u3164", "ou_bob ", "ou\tbob", "ou_bob\ufe0f"])
def test_no_account_is_bound_under_an_id_that_hides_something(world: World, external_id: str) -> None:
    with refused(400, "invalid") as problem:
        world.bind(world.bob, external_id)
    assert [error.path for error in problem.value.errors] == ["external_id"]


@pytest.mark.parametrize("name", ["bob\u115f", "bob\u3164", "bo\u1160b", "b\uffa0ob"])
def test_no_user_name_looks_like_another_for_what_nobody_sees(world: World, name: str) -> None:
    with pytest.raises(ValidationError) as caught:
        User(username=name, password="x").full_clean()
    assert list(caught.value.message_dict) == ["username"]
    document = {
        "apiVersion": "hookgate/v1",
        "organizations": [{"slug": "acme", "members": [{"user": User.normalize_username(name)}]}],
    }
    with pytest.raises(ConfigInvalid) as refusal:
        apply(document, actor=audit.SHELL)
    assert [error.path for error in refusal.value.errors] == ["organizations[0].members[0].user"]


def test_the_call_log_finds_a_person_under_every_spelling(world: World) -> None:
    for number, email in enumerate([" Kim@ACME.test", "kim@acme.test", "no address"]):
        entry = calls.Entry(
            agent=world.agent,
            id=uuid.UUID(int=number),
            tool_name="t",
            status="succeeded",
            started_at=clock.now(),
            user={"id": f"u{number}", "email": email},
        )
        calls.store([entry], runtime="r")
    rows = ConnectorCallLog.objects.all()
    found = calls.find(rows, calls.Filter(user="KIM@acme.test"))
    assert sorted(row.user_id_text for row in found) == ["u0", "u1"]
    assert calls.find(rows, calls.Filter(user="no address")).count() == 1
