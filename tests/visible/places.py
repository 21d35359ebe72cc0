"""The places that draw what models, runtimes and strangers write: each is given a text and returns what it draws."""

import io
import json
import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from html import unescape
from typing import Any

from django.conf import settings
from django.core.management import CommandError, call_command
from django.db.models import Model
from django.utils.html import escape

from channels_app.adapters import feishu_card
from channels_app.adapters.base import Tap
from channels_app.cards import Card, Tone
from channels_app.models import Delivery, DeliveryAttempt, Identity, Interaction
from hooks_app.confirmations import approval_cards
from hooks_app.confirmations.taps import ApprovalsTopic
from hooks_app.inbox import notices
from hooks_app.models import (
    Agent,
    ConfirmationRequest,
    ConnectorCallLog,
    Decision,
    RegistryRevision,
    RuntimeInstance,
)
from portal.lib import clock
from portal.lib.problems import Problem
from portal.models import AuditEvent, User
from portal.observe import logs
from portal.web import pages
from tests.admin.tenant import Tenant, sign_in
from tests.visible.unicode import ANYWHERE, ON_A_LINE, SPOKEN, STORABLE, SUFFIX, for_a_column

Draw = Callable[[Tenant], str]


@dataclass(frozen=True)
class Place:
    """Where, how it is filled and read, and what of the suffix must stand in it, once for each text."""

    name: str
    draw: Draw
    shows: tuple[str, ...]

    def __init__(self, name: str, draw: Draw, *shows: str) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "draw", draw)
        object.__setattr__(self, "shows", shows or (ON_A_LINE,))


def all_places() -> Iterator[Place]:
    """Every place."""
    yield from _inbox()
    yield from _around()
    yield from _chats()
    yield from _notices()
    yield from _admin()
    yield from _admin_parts()
    yield from _admin_doings()
    yield from _logs()
    yield from _commands()


def page(user: User, path: str) -> str:
    """A page as the person reads it."""
    answer = sign_in(user).get(path)
    assert answer.status_code == 200, (path, answer.status_code)
    return unescape(answer.content.decode())


def put(row: Model, **columns: Any) -> None:
    """Write what the outside could have sent, whatever its door would have said."""
    type(row)._default_manager.filter(pk=row.pk).update(**columns)


def initiator(text: str) -> dict[str, str]:
    return {"id": "u1", "name": text, "email": "kim@acme.test"}


def pending(row: ConfirmationRequest) -> None:
    """As if nobody had decided yet."""
    row.decisions.all().delete()
    put(row, status="pending", ended_at=None, start_by=None, expires_at=clock.now().replace(year=2999))


def _inbox() -> Iterator[Place]:
    columns: dict[str, Callable[[], dict[str, Any]]] = {
        "tool": lambda: {"tool_name": for_a_column(200)},
        "arguments": lambda: {"args": {"a": [for_a_column(200_000)]}},
        "argument keys": lambda: {"args": {for_a_column(200_000): 1}},
        "initiator": lambda: {"initiator": initiator(for_a_column(200))},
        "initiator's id": lambda: {"initiator": {"id": for_a_column(200)}},
        "conversation": lambda: {"conversation_id": for_a_column(200)},
        "summary": lambda: {"summary": for_a_column(2000)},
    }
    listed = {"tool", "initiator", "initiator's id"}

    def drawer(made: Callable[[], dict[str, Any]], path: str, *, open: bool) -> Draw:
        def draw(tenant: Tenant) -> str:
            row = tenant.row(ConfirmationRequest)
            if open:
                pending(row)
            put(row, **made())
            return page(tenant.people["approver"], path.format(row.pk))

        return draw

    for name, made in columns.items():
        yield Place(f"inbox page: {name}", drawer(made, "/inbox/{}/?all", open=True))
        if name in listed:
            yield Place(f"inbox: {name}", drawer(made, "/inbox/", open=True))
    yield Place("history: tool", drawer(columns["tool"], "/inbox/history/", open=False))


def _around() -> Iterator[Place]:
    def reason(tenant: Tenant) -> str:
        row = tenant.row(ConfirmationRequest)
        put(row, status="rejected", start_by=None, reason=for_a_column(2000))
        return page(tenant.people["approver"], f"/inbox/{row.pk}/")

    yield Place("inbox page: a person's reason", reason, SPOKEN)

    def failed_delivery(tenant: Tenant) -> str:
        put(tenant.row(Delivery), last_error=for_a_column(500))
        return page(tenant.people["approver"], f"/inbox/{tenant.row(ConfirmationRequest).pk}/")

    yield Place("inbox page: a platform's error", failed_delivery)

    def own_name(tenant: Tenant) -> str:
        put(tenant.people["approver"], first_name=for_a_column(150))
        return page(tenant.people["approver"], "/inbox/")

    yield Place("every page: the person's name", own_name)

    def refused(tenant: Tenant) -> str:
        put(tenant.people["approver"], first_name=for_a_column(150))
        row = ConfirmationRequest.objects.get(pk=tenant.row(ConfirmationRequest).pk)
        return notices.refusal(row, Problem(409, "already_decided", "…"))

    yield Place("notice: who was faster", refused)


def _card_of(row: ConfirmationRequest) -> str:
    fresh = ConfirmationRequest.objects.select_related("agent", "organization").get(pk=row.pk)
    card = approval_cards.build(fresh, language="en")
    return "\n".join([card.title, card.summary, card.body, *(field.text for field in card.fields)])


def _chats() -> Iterator[Place]:
    def of_request(**columns: Callable[[], Any]) -> Draw:
        def draw(tenant: Tenant) -> str:
            row = tenant.row(ConfirmationRequest)
            put(row, **{name: made() for name, made in columns.items()})
            return _card_of(row)

        return draw

    yield Place("card: tool", of_request(tool_name=lambda: for_a_column(200)))
    yield Place("card: arguments", of_request(args=lambda: {for_a_column(9000): for_a_column(9000)}))
    yield Place("card: initiator", of_request(initiator=lambda: initiator(for_a_column(200))))
    yield Place("card: summary", of_request(summary=lambda: for_a_column(2000)))


def _notices() -> Iterator[Place]:
    def voted(tenant: Tenant) -> str:
        row = tenant.row(ConfirmationRequest)
        facts = {"channel": "c", "external_id": "e", "name": for_a_column(200)}
        row.decisions.update(user=None, identity_facts=facts, reason=for_a_column(2000))
        return _card_of(row)

    yield Place("card: an account's name and reason", voted)

    def notice(tenant: Tenant) -> str:
        text = for_a_column(100_000)
        # In pieces, as a platform takes only so much of a text.
        parts = [text[at : at + 180] for at in range(0, len(text), 180)]
        cards = [Card(title=part, tone=Tone.NOTICE, summary=part, body=part) for part in parts]
        return json.dumps(
            [feishu_card.draw(feishu_card.fit(card), "r") for card in cards], ensure_ascii=False
        )

    yield Place("notice in a chat", notice, "pаy"[1:])

    def toast(tenant: Tenant) -> str:
        delivery = Delivery.objects.select_related("channel").get(pk=tenant.row(Delivery).pk)
        tap = Tap(str(uuid.uuid4()), "om_1", "oc_1", for_a_column(200), "approve", delivery.ref)
        return ApprovalsTopic().tap(delivery=delivery, tap=tap, identity=None).text

    yield Place("toast: an account's id", toast)


# Column by column: (model, column, how much it takes, list or page, what must stand there).
_COLUMNS: list[tuple[type[Model], str, int, str, str]] = [
    (ConfirmationRequest, "tool_name", 200, "list page", ON_A_LINE),
    (ConfirmationRequest, "conversation_id", 200, "page", ON_A_LINE),
    (ConfirmationRequest, "tool_call_id", 200, "page", ON_A_LINE),
    (ConfirmationRequest, "runtime", 100, "page", ON_A_LINE),
    (ConfirmationRequest, "summary", 2000, "page", ON_A_LINE),
    (ConfirmationRequest, "hook", 100, "page", ON_A_LINE),
    (ConfirmationRequest, "outcome_detail", 2000, "page", ANYWHERE),
    (ConnectorCallLog, "tool_name", 200, "list page", ON_A_LINE),
    (ConnectorCallLog, "agent_slug", 64, "list page", ON_A_LINE),
    (ConnectorCallLog, "blocked_by", 100, "list page", ON_A_LINE),
    (ConnectorCallLog, "reason", 2000, "page", ANYWHERE),
    (ConnectorCallLog, "error", 2000, "page", ANYWHERE),
    (ConnectorCallLog, "runtime", 100, "page", ON_A_LINE),
    (ConnectorCallLog, "session_id", 200, "page", ON_A_LINE),
    (RuntimeInstance, "name", 100, "list page", ON_A_LINE),
    (Delivery, "recipient", 200, "list page", ON_A_LINE),
    (Delivery, "last_error", 500, "list page", ON_A_LINE),
    (Interaction, "external_id", 200, "list page", ON_A_LINE),
    (Identity, "external_id", 200, "list page", ON_A_LINE),
    (Identity, "name", 200, "list page", ON_A_LINE),
    (AuditEvent, "actor_name", 200, "list page", ON_A_LINE),
    (AuditEvent, "object_name", 200, "list page", ON_A_LINE),
    (RegistryRevision, "comment", 500, "list page", ON_A_LINE),
    (Agent, "name", 200, "list", ANYWHERE),
]
_JSON: list[tuple[type[Model], str, Callable[[str], Any]]] = [
    (ConfirmationRequest, "args", lambda text: {text: text}),
    (ConfirmationRequest, "initiator", initiator),
    (ConnectorCallLog, "args", lambda text: {text: text}),
    (ConnectorCallLog, "result", lambda text: text),
    (ConnectorCallLog, "trace", lambda text: [{"hook": text}]),
    (ConnectorCallLog, "side_effects", lambda text: [text]),
    (ConnectorCallLog, "user", initiator),
    (RuntimeInstance, "tools", lambda text: [{"name": text, "description": text}]),
    (AuditEvent, "data", lambda text: {text: text}),
    (RegistryRevision, "manifest", lambda text: {"hooks": [text]}),
]


def _valued(value: Callable[[str], Any]) -> Any:
    return value(for_a_column(20_000))


def _made(columns: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    return {column: make() for column, make in columns.items()}


def _admin() -> Iterator[Place]:
    def drawer(model: type[Model], columns: Callable[[], dict[str, Any]], where: str) -> Draw:
        def draw(tenant: Tenant) -> str:
            row = tenant.row(model)
            put(row, **columns())
            path = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
            return page(tenant.people["admin"], path if where == "list" else f"{path}{row.pk}/change/")

        return draw

    filled: dict[tuple[type[Model], str], dict[str, Callable[[], Any]]] = {}
    shown: dict[tuple[type[Model], str], list[str]] = {}
    for model, column, length, places, shows in _COLUMNS:
        for where in places.split():
            filled.setdefault((model, where), {})[column] = partial(for_a_column, length)
            shown.setdefault((model, where), []).append(shows)
    for model, column, value in _JSON:
        filled.setdefault((model, "page"), {})[column] = partial(_valued, value)
        shown.setdefault((model, "page"), []).append(ON_A_LINE)
    for (model, where), columns in filled.items():
        made = partial(_made, columns)
        yield Place(f"admin {where}: {model.__name__}", drawer(model, made, where), *shown[model, where])


def _admin_parts() -> Iterator[Place]:
    def attempt(tenant: Tenant) -> str:
        DeliveryAttempt.objects.update(message=for_a_column(500))
        return page(tenant.people["admin"], f"/admin/channels_app/delivery/{tenant.row(Delivery).pk}/change/")

    yield Place("admin page: DeliveryAttempt.message", attempt)

    def reason(tenant: Tenant) -> str:
        Decision.objects.update(reason=for_a_column(2000))
        row = tenant.row(ConfirmationRequest)
        return page(tenant.people["admin"], f"/admin/hooks_app/confirmationrequest/{row.pk}/change/")

    yield Place("admin page: Decision.reason", reason, ANYWHERE)

    def runtimes(tenant: Tenant) -> str:
        put(tenant.row(RuntimeInstance), name=for_a_column(100))
        return page(tenant.people["admin"], f"/admin/hooks_app/agent/{tenant.agent.pk}/change/")

    yield Place("an agent's page: its runtimes", runtimes)

    def filters(tenant: Tenant) -> str:
        put(tenant.row(ConnectorCallLog), blocked_by=for_a_column(100), tool_name="plain")
        found = page(tenant.people["admin"], "/admin/hooks_app/connectorcalllog/")
        return found[: found.index("result_list")] + found[found.rindex("</table>") :]

    yield Place("admin list: the sidebar's filters", filters, ANYWHERE)


def _admin_doings() -> Iterator[Place]:
    def deleting(tenant: Tenant) -> str:
        row = tenant.row(Identity)
        put(row, external_id=for_a_column(200))
        return page(tenant.people["admin"], f"/admin/channels_app/identity/{row.pk}/delete/")

    yield Place("admin: what is about to be deleted", deleting, ANYWHERE)

    def choices(tenant: Tenant) -> str:
        put(tenant.people["member"], username=for_a_column(150), first_name="")
        return page(tenant.people["admin"], "/admin/channels_app/identity/add/")

    yield Place("admin: pick lists", choices, ANYWHERE)

    def message(tenant: Tenant) -> str:
        browser = sign_in(tenant.people["admin"])
        row = tenant.row(Identity)
        put(row, external_id=for_a_column(200))
        answer = browser.post(f"/admin/channels_app/identity/{row.pk}/delete/", {"post": "yes"}, follow=True)
        return unescape(answer.content.decode())

    yield Place("admin: messages", message, ANYWHERE)


def _logs() -> Iterator[Place]:
    def log_line(form: str) -> Draw:
        def draw(tenant: Tenant) -> str:
            before, settings.LOG_FORMAT = settings.LOG_FORMAT, form
            try:
                fields = {
                    "event": "x",
                    "user_agent": for_a_column(9000),
                    "tool": {"name": for_a_column(9000)},
                }
                record = logging.LogRecord("hookgate", logging.INFO, "", 0, fields, (), None)
                record._logger, record._name = logging.getLogger("hookgate"), "info"
                return logs.formatter().format(record)
            finally:
                settings.LOG_FORMAT = before

        return draw

    yield Place("log line: console", log_line("console"), "|pаy  q")
    yield Place("log line: JSON", log_line("json"), "|pаy  q\\tr\\ns|\\u200b")


def _output(name: str, *words: str) -> str:
    out, err = io.StringIO(), io.StringIO()
    with suppress(CommandError):
        call_command(name, *words, stdout=out, stderr=err)
    return out.getvalue() + err.getvalue()


def _commands() -> Iterator[Place]:
    def built(tenant: Tenant) -> str:
        revision = RegistryRevision.objects.get(agent=tenant.agent)
        manifest = {
            **revision.manifest,
            "tools": [{**tool, "name": for_a_column(90_000)} for tool in revision.manifest["tools"]],
        }
        put(revision, manifest=manifest)
        return _output("build_registry", f"{tenant.organization.slug}/{tenant.agent.slug}")

    yield Place("build_registry", built, "|pаy  q\\tr\\ns|\\u200b")

    def exported(tenant: Tenant) -> str:
        put(tenant.agent, name=for_a_column(200))
        return _output("export")

    yield Place("export", exported, "y  q\\tr\\ns|\\u200B")

    def checked(tenant: Tenant) -> str:
        channel = tenant.row(Delivery).channel
        put(channel, last_error=for_a_column(500), last_error_at=clock.now())
        return _output("check_channel", f"{tenant.organization.slug}/{channel.slug}")

    yield Place("check_channel", checked, "|pаy  q")

    def any_page(tenant: Tenant) -> str:
        text = escape(STORABLE + SUFFIX)
        return pages.show(f'<a title="{text}">{text}</a><p>{text}</p>')

    yield Place("any page", any_page, ANYWHERE)
