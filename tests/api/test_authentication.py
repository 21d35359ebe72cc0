"""Who is calling, and what a worthless credential gets."""

from datetime import timedelta

import pytest
from django.test import Client

from hooks_app import keys
from hooks_app.models import RuntimeKey
from portal import audit
from portal.models import PersonalToken
from portal.people import tokens
from tests import make
from tests.api.client import Api
from tests.api.conftest import confirmation, token

REGISTRY = "/agents/procurement/registry"


def ask(world, header):
    return world.nobody.send("GET", REGISTRY, headers={"Authorization": header})


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        "Bearer hg_unknown",
        "Bearer hgp_unknown",
        "Bearer nonsense",
        "Basic YWxpY2U6eA==",
        "Bearer hg_\udcff".encode("utf-8", "replace").decode(),
        "Bearer hg_\u00e9",
    ],
)
def test_no_or_a_malformed_or_an_unknown_credential_is_401_with_a_challenge(world, header):
    answer = ask(world, header)
    assert (answer.status, answer.code) == (401, "unauthenticated")
    assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_without_any_header_it_is_401_too(world):
    answer = world.nobody.get(REGISTRY)
    assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")


def test_a_credential_is_compared_exactly(world):
    plain = make.key(world.acme)
    assert ask(world, f"Bearer {plain}").status == 200
    assert ask(world, f"bearer {plain}").status == 200  # the scheme has no case (RFC 9110)
    for wrong in (plain.upper(), plain + "x", plain[:-1], f" {plain}", f"{plain} ", f"{plain} {plain}"):
        if wrong.strip() == plain and wrong != f" {plain}":
            continue  # HTTP itself strips the end of a header
        assert ask(world, f"Bearer {wrong}").status == 401, wrong


def test_a_revoked_or_expired_key_is_worthless_at_once(world, time):
    plain = make.key(world.acme, expires_at=time.moment + timedelta(days=1))
    assert ask(world, f"Bearer {plain}").status == 200
    time.advance(days=1)
    assert ask(world, f"Bearer {plain}").status == 401
    other = make.key(world.acme)
    assert ask(world, f"Bearer {other}").status == 200
    keys.revoke(RuntimeKey.objects.latest("created_at"), actor=audit.SHELL)
    assert ask(world, f"Bearer {other}").status == 401


def test_keys_and_tokens_die_with_their_user(world):
    key = make.key(world.acme, created_by=world.alice)
    personal = token(world.alice)
    assert ask(world, f"Bearer {key}").status == ask(world, f"Bearer {personal}").status == 200
    world.alice.is_active = False
    world.alice.save()
    assert ask(world, f"Bearer {key}").status == ask(world, f"Bearer {personal}").status == 401


def test_a_revoked_token_is_worthless_at_once(world):
    personal = token(world.alice)
    assert Api(personal).get("/confirmations").status == 200
    tokens.revoke(PersonalToken.objects.get(), actor=audit.SHELL)
    assert Api(personal).get("/confirmations").status == 401


def test_the_minute_of_the_last_use_is_kept(world, time):
    world.runtime.get(REGISTRY)
    minute = time.moment.replace(second=0, microsecond=0)
    assert RuntimeKey.objects.filter(agent=world.procurement).get().last_used_at == minute


def test_a_session_reads_and_an_ended_one_does_not(world):
    api = Api(user=world.alice)
    assert api.get(REGISTRY).status == 200
    world.alice.is_active = False
    world.alice.save()
    assert api.get(REGISTRY).status == 401


def test_a_bad_header_is_refused_even_beside_a_session(world):
    assert Api(user=world.alice).get(REGISTRY, headers={"Authorization": "Bearer hg_x"}).status == 401


def test_a_session_writes_only_with_its_csrf_token(world):
    made = world.runtime.post("/confirmations", confirmation(world.procurement)).body
    path = f"/confirmations/{made['id']}/respond"
    api = Api(user=world.bob, csrf=True)
    refused = api.post(path, {"decision": "approve"})
    assert (refused.status, refused.code) == (403, "csrf_failed")
    refused = api.post(path, {"decision": "approve"}, headers={"X-CSRFToken": "x" * 64})
    assert (refused.status, refused.code) == (403, "csrf_failed")
    cookie = "c" * 32
    api.client.cookies["csrftoken"] = cookie
    refused = api.post(path, {"decision": "approve"})
    assert (refused.status, refused.code) == (403, "csrf_failed")
    approved = api.post(path, {"decision": "approve"}, headers={"X-CSRFToken": cookie})
    assert (approved.status, approved.body["status"]) == (200, "approved")


def test_keys_and_tokens_need_no_csrf_token(world):
    world.runtime.client = Client(enforce_csrf_checks=True)
    made = world.runtime.post("/confirmations", confirmation(world.procurement))
    assert made.status == 201
    bob = world.person("bob")
    bob.client = Client(enforce_csrf_checks=True)
    assert bob.post(f"/confirmations/{made.body['id']}/respond", {"decision": "reject"}).status == 200
