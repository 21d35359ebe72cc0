"""What the inbox and its history show, and to whom."""

from collections.abc import Callable

import pytest
from django.test import Client

from portal.models import User
from tests import make
from tests.confirmations.world import KIM, World
from tests.conftest import Clock
from tests.inbox.pages import section, tools

SignIn = Callable[[User], Client]


def test_the_front_page_leads_to_the_inbox_and_the_inbox_to_signing_in(db: None) -> None:
    assert Client().get("/").headers["location"] == "/login/?next=/"
    assert Client().get("/inbox/").headers["location"] == "/login/?next=/inbox/"


def test_signing_in_leads_to_the_inbox(world: World) -> None:
    world.bob.set_password("a long enough one")
    world.bob.save()
    answer = Client().post("/login/", {"username": "bob", "password": "a long enough one"})
    assert (answer.status_code, answer.headers["location"]) == (302, "/inbox/")


def test_an_approver_sees_what_to_decide(world: World, sign_in: SignIn) -> None:
    world.ask()
    page = sign_in(world.bob).get("/inbox/").content.decode()
    assert tools(section(page, "to-decide")) == ["oa__purchase_pay"]
    assert "Kim (kim@elsewhere.test, u42)" in page
    assert "&quot;amount&quot;:60000" in page
    assert "[redacted]" in page
    assert "4111-1111" not in page


def test_the_deadline_is_told_in_the_organizations_zone(world: World, sign_in: SignIn, time: Clock) -> None:
    time.moment = time.moment.replace(year=2026, month=5, day=1, hour=20, minute=0, second=0)
    world.ask()
    page = sign_in(world.bob).get("/inbox/").content.decode()
    assert "2026-05-02 05:02:00 (Asia/Seoul)" in page
    assert '<time datetime="2026-05-01T20:02:00+00:00"' in page


def test_the_initiator_follows_what_others_decide(world: World, sign_in: SignIn) -> None:
    world.ask(initiator=KIM.__class__(id="u1", name="Dave", email=world.dave.email))
    page = sign_in(world.dave).get("/inbox/").content.decode()
    assert tools(section(page, "own")) == ["oa__purchase_pay"]
    assert "Only approvers and admins of the organization may decide" in section(page, "own")
    assert tools(section(page, "to-decide")) == []


def test_an_auditor_sees_it_under_others(world: World, sign_in: SignIn) -> None:
    world.ask()
    page = sign_in(world.erin).get("/inbox/").content.decode()
    assert tools(section(page, "others")) == ["oa__purchase_pay"]
    assert tools(section(page, "to-decide")) == []


def test_a_vote_short_of_the_quorum_moves_the_request(world: World, sign_in: SignIn) -> None:
    world.set_policy(quorum=2)
    row = world.ask()
    world.approve(row, world.bob)
    page = sign_in(world.bob).get("/inbox/").content.decode()
    assert tools(section(page, "voted")) == ["oa__purchase_pay"]
    assert "You have approved; others must too." in page
    assert tools(section(sign_in(world.carol).get("/inbox/").content.decode(), "to-decide")) == [
        "oa__purchase_pay"
    ]


def test_what_only_a_tap_decides_is_listed_for_those_who_may_tap(world: World, sign_in: SignIn) -> None:
    world.set_agent(confirmation_mode="channel_only")
    world.ask()
    page = sign_in(world.bob).get("/inbox/").content.decode()
    assert tools(section(page, "to-decide")) == ["oa__purchase_pay"]
    assert "tap its card in ops-feishu" in page


def test_nobody_sees_another_organizations_requests(world: World, sign_in: SignIn) -> None:
    row, decided = world.ask(), world.ask()
    world.approve(decided, world.bob)
    other = make.organization("initech")
    for role in ("admin", "approver", "auditor", "member"):
        outsider = sign_in(make.user(f"outsider-{role}", other, role))
        for address in ("/inbox/", "/inbox/history/"):
            assert "purchase_pay" not in outsider.get(address).content.decode()
        assert outsider.get(f"/inbox/{row.pk}/").status_code == 404
        assert outsider.get(f"/inbox/{decided.pk}/").status_code == 404


def test_a_member_who_has_no_part_in_it_sees_nothing(world: World, sign_in: SignIn) -> None:
    row = world.ask()
    frank = make.user("frank", world.organization, "member")
    assert "purchase_pay" not in sign_in(frank).get("/inbox/").content.decode()
    assert sign_in(frank).get(f"/inbox/{row.pk}/").status_code == 404


def test_history_tells_how_each_request_ended(world: World, sign_in: SignIn, time: Clock) -> None:
    approved, rejected, _expired = world.ask(), world.ask(), world.ask()
    world.approve(approved, world.bob)
    world.reject(rejected, world.carol, reason="too much")
    bob = sign_in(world.bob)
    assert len(tools(bob.get("/inbox/history/").content.decode())) == 2
    time.advance(seconds=121)  # nothing has swept the third
    page = bob.get("/inbox/history/").content.decode()
    assert len(tools(page)) == 3
    assert "was approved by bob" in page
    assert "was rejected by carol" in page
    assert "Expired: nobody decided in time" in page
    assert tools(bob.get("/inbox/").content.decode()) == []


def test_history_comes_in_pages(world: World, sign_in: SignIn) -> None:
    world.set_agent(max_pending=100)
    for _ in range(27):
        world.approve(world.ask(), world.bob)
    bob = sign_in(world.bob)
    first, second = (bob.get(f"/inbox/history/?page={n}").content.decode() for n in (1, 2))
    assert (len(tools(first)), len(tools(second))) == (25, 2)
    assert "Page 2 of 2" in second
    assert bob.get("/inbox/history/?page=x").status_code == 400


@pytest.mark.parametrize("language", ["ko", "zh-hans"])
def test_the_pages_speak_the_persons_language(world: World, sign_in: SignIn, language: str) -> None:
    row = world.ask()
    bob = sign_in(world.bob)
    bob.cookies["django_language"] = language
    for address in ("/inbox/", f"/inbox/{row.pk}/", "/inbox/history/"):
        page = bob.get(address).content.decode()
        assert f'<html lang="{language}">' in page
        for english in ("For you to decide", "Decide by", "Sign out", "Reason (optional)", "History"):
            assert english not in page
