"""Each sees its own, and exactly that, where two organizations name everything alike."""

import io
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client, RequestFactory

from portal import windows
from tests.access import twins
from tests.access.twins import TOOL_CALLS, Twin
from tests.admin import addresses
from tests.admin.tenant import sign_in
from tests.api.client import Api
from tests.channels import forging

# Words that rows of both have.
WORDS = (
    "procurement",
    "payments",
    "finance",
    "call-1",
    "ou_same",
    "oa",
    "Twin",
    "twin",
    "chat",
    "worker",
    "c1",
)
# Tables that say who looked, not what there is.
LOOKS = {"sessions.Session", "portal.PersonalToken", "hooks_app.RuntimeKey"}


@pytest.fixture
def pair(db: None) -> tuple[Twin, Twin]:
    windows.storage.cache_clear()
    return twins.build("twin-a"), twins.build("twin-b")


def both_ways(pair: tuple[Twin, Twin]) -> Iterator[tuple[Twin, Twin]]:
    yield pair
    yield pair[1], pair[0]


def ids(api: Api, path: str, **query: Any) -> set[str]:
    """The ids of all pages of a list."""
    found: set[str] = set()
    while True:
        answer = api.get(path, limit=2, **query)
        assert answer.status == 200, answer.body
        found |= {row["id"] for row in answer.body["results"]}
        if answer.body["next"] is None:
            return found
        query["cursor"] = answer.body["next"]


def test_each_list_of_the_api_has_exactly_the_own_rows(pair: tuple[Twin, Twin]) -> None:
    for own, _other in both_ways(pair):
        for api in (
            *own.keys.values(),
            own.persons["admin"],
            own.persons["auditor"],
            own.persons["approver"],
        ):
            assert ids(api, "/confirmations") == set(own.requests)
        for key in own.keys.values():
            assert ids(key, "/confirmations", agent="procurement") == set(own.requests)
            assert ids(key, "/confirmations", status="pending") == {own.requests[0]}
        for role in ("admin", "auditor"):
            person = own.persons[role]
            assert ids(person, "/calls") == set(own.calls)
            for query in (
                {"agent": "procurement"},
                {"tool": "oa__pay"},
                {"user": "u1"},
                {"status": "succeeded"},
            ):
                assert ids(person, "/calls", **query) == set(own.calls)
        assert len(own.calls) == 1


def test_a_cursor_of_the_other_leads_nowhere_else(pair: tuple[Twin, Twin]) -> None:
    for own, other in both_ways(pair):
        cursor = other.keys["agent"].get("/confirmations", limit=1).body["next"]
        found = ids(own.keys["agent"], "/confirmations", cursor=cursor)
        assert found <= set(own.requests)


def test_a_name_means_the_own_row(pair: tuple[Twin, Twin]) -> None:
    for own, other in both_ways(pair):
        for api in (*own.keys.values(), own.persons["admin"]):
            for path in ("/agents/procurement/registry", "/agents/procurement/registry/revisions/1"):
                body = api.get(path).body
                agent = body.get("agent") or body["manifest"]["agent"]
                assert (agent["id"], agent["organization"]) == (str(own.agent.pk), own.organization.slug)
            assert api.get(f"/agents/{other.agent.pk}/registry").status == 404


def test_the_same_call_is_the_own_request(pair: tuple[Twin, Twin]) -> None:
    for own, other in both_ways(pair):
        for call, request in zip(TOOL_CALLS, own.requests, strict=True):
            answer = own.keys["agent"].post("/confirmations", twins.proposal(own.agent, call))
            assert (answer.status, answer.body["id"]) == (200, request)
            parent = {**twins.proposal(own.agent, f"{call}-child"), "parent": other.requests[0]}
            assert own.keys["agent"].post("/confirmations", parent).status in (400, 404)


def attempts(other: Twin) -> Iterator[tuple[str, str, str, dict[str, str] | None]]:
    """``(what, method, path, body)`` of everything that reads or changes a request, aimed at the other's."""
    use = {"args_digest": f"sha256:{'0' * 64}", "attempt": "11111111-1111-4111-8111-111111111111"}
    for request in other.requests:
        path = f"/confirmations/{request}"
        yield "respond", "POST", f"{path}/respond", {"decision": "approve"}
        yield "consume", "POST", f"{path}/consume", use
        yield "outcome", "POST", f"{path}/outcome", {"status": "succeeded"}
        yield "cancel", "POST", f"{path}/cancel", None
        yield "read", "GET", path, None
    for call in other.calls:
        yield "call", "GET", f"/calls/{call}", None


def kept() -> dict[str, Any]:
    return {name: rows for name, rows in forging.rows().items() if name not in LOOKS}


def test_the_other_ones_requests_are_not_there_and_stay_as_they_are(pair: tuple[Twin, Twin]) -> None:
    before = kept()
    for own, other in both_ways(pair):
        for api in (*own.keys.values(), *own.persons.values()):
            found = {
                (what, api.send(method, path, body=body).status)
                for what, method, path, body in attempts(other)
            }
            # People don't consume and runtimes don't respond, whosever request it is.
            assert {status for _what, status in found} <= {403, 404}, found
            assert ("read", 404) in found
    assert kept() == before


def shown(browser: Client, address: str) -> str:
    answer = browser.get(address, follow=True)
    assert answer.status_code in (200, 403), address
    return str(answer.content.decode())


def leaks(text: str, other: Twin, asked: str = "") -> list[str]:
    """What of the other is in a page, but for what was asked for in its own address."""
    marks = {*other.ids, other.organization.slug} - {asked}
    return sorted(mark for mark in marks if mark in text)


def test_no_screen_shows_or_offers_a_row_of_the_other(pair: tuple[Twin, Twin]) -> None:
    own, other = pair
    browser = sign_in(own.people["admin"])
    for _model, screen in addresses.screens():
        path = addresses.of_list(screen)
        # Nearly every name of both has an "o".
        for query in ("", "?q=o", "add/") if screen.search_fields else ("", "add/"):
            assert leaks(shown(browser, path + query), other) == [], path + query
    for word in WORDS:
        assert leaks(shown(browser, f"/admin/search/?s={word}&extended=1"), other) == [], word
    assert leaks(shown(browser, "/admin/"), other) == []


def test_no_page_of_an_own_row_has_the_other(pair: tuple[Twin, Twin]) -> None:
    own, other = pair
    browser = sign_in(own.people["admin"])
    pages = 0
    for model, screen in addresses.screens():
        row = next((row for row in model._default_manager.all() if str(row.pk) in own.ids), None)
        if row is not None:
            assert leaks(shown(browser, addresses.of_row(screen, row)), other) == [], row
            pages += 1
    assert pages > 15


def test_no_form_offers_a_row_of_the_other(pair: tuple[Twin, Twin], rf: RequestFactory) -> None:
    """Whatever the page draws: a choice that isn't in the field's rows is refused."""
    own, other = pair
    request = rf.get("/?type=feishu")
    request.user = own.people["admin"]
    fields = 0
    for _model, screen in addresses.screens():
        forms = [screen.get_form(request)]
        forms += [inline.get_formset(request).form for inline in screen.get_inline_instances(request)]
        for form in forms:
            for name, field in form.base_fields.items():
                if getattr(field, "queryset", None) is None:
                    continue
                fields += 1
                offered = {str(key) for key in field.queryset.values_list("pk", flat=True)}
                assert offered & other.ids == set(), (screen, name)
    assert fields > 10


def test_the_audit_trail_reaches_no_row_of_the_other(pair: tuple[Twin, Twin]) -> None:
    own, other = pair
    browser = sign_in(own.people["admin"])
    trail = "/admin/portal/auditevent/"
    for query in (f"object_id={other.agent.pk}", f"organization__id__exact={other.organization.pk}"):
        text = shown(browser, f"{trail}?{query}")
        assert leaks(text, other, asked=query.partition("=")[2]) == [], query


def targets(other: Twin) -> Iterator[tuple[Any, Any]]:
    """``(screen, row)``: one row of the other for each screen that shows any."""
    for model, screen in addresses.screens():
        for row in model._default_manager.all():
            if str(row.pk) in other.ids:
                yield screen, row
                break


def test_no_button_and_no_action_takes_a_row_of_the_other(pair: tuple[Twin, Twin]) -> None:
    own, other = pair
    browser = sign_in(own.people["admin"])
    before = kept()
    aimed = 0
    for screen, row in targets(other):
        for action in addresses.row_actions(screen):
            answer = browser.post(
                addresses.of_row(screen, row, action), {"post": "yes", "_save": "1", "reason": "x"}
            )
            assert answer.status_code in (302, 403, 404), (screen, action)
            aimed += 1
        for action in ("delete_selected", *dict(screen.get_action_choices(_as(own)))):
            chosen = {"action": action, "_selected_action": [str(row.pk)], "post": "yes"}
            assert browser.post(addresses.of_list(screen), chosen).status_code in (200, 302, 403), screen
        browser.post(
            addresses.of_list(screen), {"form-0-id": str(row.pk), "form-TOTAL_FORMS": "1", "_save": "1"}
        )
    assert aimed > 60
    after = kept()
    assert [name for name in before if before[name] != after[name]] == []


def _as(twin: Twin) -> Any:
    request = RequestFactory().get("/")
    request.user = twin.people["admin"]
    return request


def test_an_own_page_takes_no_inline_row_of_the_other(pair: tuple[Twin, Twin]) -> None:
    """The own row's form with the other's rows for its inlines, and moved to the other's organization."""
    own, other = pair
    browser = sign_in(own.people["admin"])
    before = kept()
    for model, screen in addresses.screens():
        mine = next((row for row in model._default_manager.all() if str(row.pk) in own.ids), None)
        if mine is None:
            continue
        for inline in screen.get_inline_instances(_as(own), mine):
            theirs = inline.model._default_manager.all()
            for row in (row for row in theirs if str(row.pk) in other.ids):
                prefix = inline.get_formset(_as(own), mine).get_default_prefix()
                form = {
                    f"{prefix}-TOTAL_FORMS": "1",
                    f"{prefix}-INITIAL_FORMS": "1",
                    f"{prefix}-0-DELETE": "on",
                }
                form[f"{prefix}-0-{inline.model._meta.pk.name}"] = str(row.pk)
                answer = browser.post(addresses.of_row(screen, mine), form)
                assert answer.status_code in (200, 302, 403), (screen, prefix)
                assert inline.model._default_manager.filter(pk=row.pk).exists(), (screen, prefix)
        browser.post(
            addresses.of_row(screen, mine), {"organization": str(other.organization.pk), "_save": "1"}
        )
    after = kept()
    theirs_before, theirs_after = (
        {name: [row for row in rows if str(row.get("id")) in other.ids] for name, rows in now.items()}
        for now in (before, after)
    )
    assert theirs_before == theirs_after


def test_an_export_has_the_named_organization_alone(pair: tuple[Twin, Twin]) -> None:
    for own, other in both_ways(pair):
        out = io.StringIO()
        call_command("export", org=own.organization.slug, stdout=out)
        assert own.organization.slug in out.getvalue()
        assert leaks(out.getvalue(), other) == []


def test_the_inbox_shows_the_own_requests(pair: tuple[Twin, Twin]) -> None:
    for own, other in both_ways(pair):
        browser = sign_in(own.people["approver"])
        for path in ("/inbox/", "/inbox/history/"):
            assert leaks(shown(browser, path), other) == []
        assert own.requests[0] in shown(browser, "/inbox/")
        for request in other.requests:
            assert browser.get(f"/inbox/{request}/").status_code == 404
            assert browser.post(f"/inbox/{request}/", {"decision": "approve"}).status_code == 404
