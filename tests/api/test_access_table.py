"""Which scope opens which call, and with which code it is refused. Who reaches what is in tests/access/table.txt."""

import re
import uuid
from dataclasses import dataclass

import pytest

from hooks_app.models.keys import KEY_SCOPES
from tests import make
from tests.api.client import Api

API = "api/v1/"


@dataclass(frozen=True)
class Row:
    """The scope that a runtime key and a person's token need; ``None``: not for this kind of caller."""

    runtime: str | None
    person: str | None


# Of contract section 4, in its order.
TABLE = {
    ("GET", "agents/<str:agent>/registry"): Row("registry", "read"),
    ("GET", "agents/<str:agent>/registry/revisions"): Row("registry", "read"),
    ("GET", "agents/<str:agent>/registry/revisions/<int:number>"): Row("registry", "read"),
    ("GET", "agents/<str:agent>/events"): Row("registry", "read"),
    ("PUT", "agents/<str:agent>/tools"): Row("tools", None),
    ("GET", "confirmations"): Row("confirmations", "read"),
    ("POST", "confirmations"): Row("confirmations", None),
    ("GET", "confirmations/<str:id>"): Row("confirmations", "read"),
    ("POST", "confirmations/<str:id>/respond"): Row(None, "decide"),
    ("POST", "confirmations/<str:id>/consume"): Row("confirmations", None),
    ("POST", "confirmations/<str:id>/outcome"): Row("confirmations", None),
    ("POST", "confirmations/<str:id>/cancel"): Row("confirmations", None),
    ("GET", "calls"): Row(None, "read"),
    ("POST", "calls"): Row("calls", None),
    ("GET", "calls/<str:id>"): Row(None, "read"),
    ("POST", "limits/acquire"): Row("limits", None),
    ("POST", "channels/<str:slug>/messages"): Row("notify", None),
}
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def fill(route):
    """An address that the route matches."""
    route = re.sub(r"<int:\w+>", "1", route)
    route = re.sub(r"<(uuid|str):(id|pk)>|<uuid:\w+>", str(uuid.uuid4()), route)
    route = re.sub(r"<\w+:\w+>", "x", route)
    route = re.sub(r"\(\?P<\w+>(\w+)[^)]*\)", r"\1", route)
    route = re.sub(r"\(\?P<\w+>\.\*\)", "x", route)
    return route.replace("^", "").replace("/?", "/").replace("$", "").replace("\\Z", "")


@pytest.mark.parametrize(("method", "path"), list(TABLE))
def test_the_table_holds(world, method, path):
    row, address = TABLE[method, path], "/" + fill(path)
    others = [scope for scope in KEY_SCOPES if scope != row.runtime]
    callers: dict[str, tuple[Api, int | None]] = {
        "nobody": (world.nobody, 401),
        "a key without the scope": (Api(make.key(world.acme, scopes=others)), 403),
        "a person's token without the scope": (
            world.person("alice", "decide" if row.person == "read" else "read"),
            403,
        ),
    }
    if row.runtime:
        callers["a key with the scope alone"] = (Api(make.key(world.acme, scopes=[row.runtime])), None)
    if row.person:
        callers["a token with the scope alone"] = (world.person("alice", row.person), None)
        callers["a session"] = (Api(user=world.alice), None)
    else:
        callers["a session"] = (Api(user=world.alice), 403)
    for who, (api, expected) in callers.items():
        answer = api.send(method, address)
        if expected is None:
            assert answer.status not in (401, 403), (who, answer.body)
        else:
            assert answer.status == expected, (who, answer.body)
        if expected == 403:
            missing = row.runtime if "key" in who else row.person
            wanted = "people_only" if "key" in who else "runtime_only"
            assert answer.code == ("scope_missing" if missing else wanted), who


@pytest.mark.parametrize("path", sorted({path for _, path in TABLE}))
def test_a_method_without_a_row_is_405_and_names_those_that_have_one(world, path):
    allowed = {method for method, other in TABLE if other == path}
    for method in METHODS:
        if method in allowed:
            continue
        answer = world.runtime_of_acme.send(method, "/" + fill(path))
        assert (answer.status, answer.code) == (405, "method_not_allowed"), method
        named = {word.strip() for word in answer.headers["Allow"].split(",")}
        assert named - {"HEAD"} == allowed


@pytest.mark.parametrize("path", ["/nothing", "/confirmations/", "/agents", "/calls/x/y", "/%00"])
def test_any_other_address_of_the_api_is_404_in_the_same_form(world, path):
    for method in ("GET", "POST"):
        answer = world.nobody.send(method, path)
        assert (answer.status, answer.code) == (404, "not_found")
