"""What is asked for where: an address of acme's own row for each route, and a body that would be accepted."""

import json
import re
import uuid
from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.urls import get_resolver

from channels_app.models import Channel
from hooks_app.models import ConnectorCallLog
from hooks_app.registry import heads
from portal.lib import clock
from tests.access.callers import World

API = "api/v1/"
# Addresses that Django's resolver doesn't know: whitenoise's and, where it is switched on, the sandbox's.
OUTSIDE = {"static/portal/portal.css", "sandbox/", "nothing"}


APPS = {"portal", "channels_app", "hooks_app"}
LABELS = "(?P<app_label>portal|channels_app|hooks_app)"
_APPS = re.compile(r"\(\?P<app_label>([a-z_|]+)\)")


def routes(resolver: Any = None, prefix: str = "") -> Iterator[str]:
    """Every route of the project, as it is written; the names of apps, which stand there in the order in which their
    screens were imported, as the table has them."""
    for pattern in (resolver or get_resolver()).url_patterns:
        route = prefix + str(pattern.pattern)
        if hasattr(pattern, "url_patterns"):
            yield from routes(pattern, route)
        else:
            yield _APPS.sub(lambda found: LABELS if set(found[1].split("|")) == APPS else found[0], route)


def address(world: World, method: str, route: str) -> str:
    """The route with acme's rows filled in."""
    requests = {"respond": world.pending, "cancel": world.pending, "consume": world.approved}
    request: Any = requests.get(route.rpartition("/")[2], world.approved)
    if route.endswith("/outcome"):
        request = world.consumed
    if route.startswith("inbox/"):
        request = world.pending
    if route.startswith("inbox/invitations/"):
        request = world.invitation
    values = {
        "<str:token>": "nothing",
        "<str:agent>": world.acme.agent.slug,
        "<int:number>": "1",
        "<str:slug>": world.acme.row(Channel).slug,
        "<slug:slug>": world.acme.row(Channel).slug,
        "<slug:organization>": world.acme.organization.slug,
        "<uuid:pk>": str(request.pk),
        "<str:id>": str(world.acme.row(ConnectorCallLog).pk if "calls/" in route else request.pk),
        "<path:content_type_id>": "1",
        "<path:object_id>": _row(world, route),
        LABELS: "portal",
        "(?P<url>.*)": "nothing/here/",
    }
    route = "" if route == "." else route
    for name, value in values.items():
        route = route.replace(name, value)
    return "/" + re.sub(r"[\^$]|\\Z", "", route.replace("/?", ""))


def _row(world: World, route: str) -> str:
    parts = route.split("/")
    if "/<path:object_id>/" not in route or parts[1] == "r":
        return "x"
    return str(world.acme.row(apps.get_model(parts[1], parts[2])).pk)


def body(world: World, method: str, route: str) -> tuple[str, str]:
    """``(text, content type)`` of what is sent."""
    if not route.startswith(API):
        decision = "decision=approve&role=member" if route.startswith("inbox/") else ""
        return (decision, "application/x-www-form-urlencoded") if method == "POST" else ("", "")
    found = _bodies(world).get((method, route.removeprefix(API)))
    return (json.dumps(found), "application/json") if found is not None else ("", "")


def _bodies(world: World) -> dict[tuple[str, str], Any]:
    agent = world.acme.agent.slug
    revision = heads.head(world.acme.agent).revision
    assert revision is not None
    call = {"id": str(uuid.uuid4()), "agent": agent, "tool_name": "t", "status": "succeeded"}
    new = {
        "agent": agent,
        "conversation_id": "c9",
        "tool_call_id": "call-new",
        "tool_name": "acme_oa__pay",
        "tool_args": {"amount": 5},
        "registry_digest": revision.digest,
    }
    limit = {"agent": agent, "hook": world.hook, "connector": "oa", "call": str(uuid.uuid4())}
    return {
        ("PUT", "agents/<str:agent>/tools"): {"tools": []},
        ("POST", "confirmations"): new,
        ("POST", "confirmations/<str:id>/respond"): {"decision": "approve"},
        ("POST", "confirmations/<str:id>/consume"): {
            "args_digest": world.approved.args_digest,
            "attempt": str(uuid.uuid4()),
        },
        ("POST", "confirmations/<str:id>/outcome"): {"status": "succeeded"},
        ("POST", "confirmations/<str:id>/cancel"): {},
        ("POST", "calls"): {"calls": [{**call, "started_at": clock.rfc3339(clock.now())}]},
        ("POST", "limits/acquire"): limit,
        ("POST", "channels/<str:slug>/messages"): {"text": "hello", "agent": agent},
    }


def api_patterns() -> list[Any]:
    """The patterns of the API's endpoints, without its documents."""
    found = [p for p in get_resolver("hooks_app.api.urls").url_patterns if hasattr(p.callback, "view_class")]
    assert found
    return found
