"""What is on record stays on record, and is shown to nobody who may not see it."""

import uuid
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from channels_app.models import Channel, Delivery, Interaction
from hooks_app import confirmations
from hooks_app.models import Agent, ConfirmationRequest, ConnectorCallLog, Decision, RegistryRevision
from portal.admin.site import site
from portal.models import AuditEvent, Membership, User
from tests import make
from tests.defects.office import ARGS, Office, shown, tap

HISTORY = (ConfirmationRequest, Decision, Delivery, Interaction, ConnectorCallLog, RegistryRevision)


def lived(office: Office, **changes: Any) -> Any:
    """A request with a whole life: asked, tapped, used, reported and logged."""
    request = office.ask(**changes)
    assert tap(shown(request), "ou_bob").status == 200
    assert office.consume(request).status == 200
    assert (
        office.call("POST", f"/confirmations/{request['id']}/outcome", {"status": "succeeded"}).status == 200
    )
    entry = {
        "id": str(uuid.uuid4()),
        "agent": office.world.agent.slug,
        "tool_name": request["tool_name"],
        "status": "succeeded",
        "started_at": request["created_at"],
        "confirmation_id": request["id"],
        "args": request["tool_args"],
        "user": {"id": "u42"},
    }
    assert office.call("POST", "/calls", {"calls": [entry]}).status == 202
    return request


def browser(user: User) -> Client:
    """Signed in to the admin pages."""
    client = Client(raise_request_exception=False)
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def delete_everything(client: Client) -> None:
    """Try to delete every row of every screen, by its page, in bulk, and by the screen's own button."""
    for model in site._registry:
        address = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
        # Whoever deletes the own account is signed out, and tries nothing more.
        own = client.session["_auth_user_id"]
        rows = model._default_manager.exclude(pk=own) if model is User else model._default_manager.all()
        keys = [str(key) for key in rows.values_list("pk", flat=True)[:5]]
        for key in keys:
            client.post(f"{address}{key}/delete/", {"post": "yes"})
            client.post(f"{address}{key}/remove/", {"post": "yes", "confirm": "yes"})
        client.post(address, {"action": "delete_selected", "_selected_action": keys, "post": "yes"})


@pytest.mark.parametrize("who", ["admin", "superuser"])
def test_nobody_deletes_history_in_the_admin_pages(office: Office, who: str) -> None:
    """Known failure 21 of earlier systems: deleting a channel or a person took the record of decisions with it."""
    lived(office)
    world = office.world
    user = world.alice if who == "admin" else User.objects.create_superuser("root", "root@acme.test", "x")
    before = {model: set(model._default_manager.values_list("pk", flat=True)) for model in HISTORY}
    trail = set(AuditEvent.objects.values_list("pk", flat=True))
    assert all(before.values())
    world.organization.groups.create(slug="spare")
    client = browser(user)
    delete_everything(client)
    for model, keys in before.items():
        # A revision may have been built meanwhile: what registries are built from has changed.
        assert set(model._default_manager.values_list("pk", flat=True)) >= keys, model
    assert trail <= set(AuditEvent.objects.values_list("pk", flat=True))
    assert client.get("/admin/").status_code == 200
    assert not world.organization.groups.exists()  # what nothing depends on did go
    vote = Decision.objects.get()
    assert (vote.user_name, vote.identity_facts and vote.identity_facts["external_id"]) == ("bob", "ou_bob")


def test_a_person_or_channel_that_goes_leaves_the_record_whole(office: Office) -> None:
    """Known failure 21 of earlier systems: a removed account or channel left no trace of what was decided."""
    request = lived(office)
    before = office.call("GET", f"/confirmations/{request['id']}").body
    browser(office.world.alice).post(
        f"/admin/channels_app/channel/{office.world.channel.pk}/remove/", {"confirm": "yes"}
    )
    Membership.objects.filter(user=office.world.bob).delete()
    User.objects.filter(pk=office.world.bob.pk).update(is_active=False)
    for gone in (office.world.bob, office.world.channel):
        with pytest.raises(Exception, match="protected foreign keys"):
            gone.delete()
    assert office.call("GET", f"/confirmations/{request['id']}").body == before
    assert before["decisions"][0]["user"] == "bob"
    (call,) = office.call("GET", "/calls", bearer=office.token(office.world.erin)).body["results"]
    assert call["confirmation_id"] == request["id"]


def test_an_agent_with_history_is_not_deleted(office: Office) -> None:
    """Known failure 21 of earlier systems, by way of the agent: its requests would lose what they were about."""
    lived(office)
    with pytest.raises(Exception, match="protected"):
        Agent.objects.get().delete()


def test_arguments_are_in_the_database_in_no_other_place_than_the_call_log(office: Office) -> None:
    """Known failure 31 of earlier systems: the arguments of a request lay in clear in every copy of it.

    What the tool's description redacts is in clear nowhere at all. What the runtime reports of a call is kept as
    reported, for auditors.
    """
    lived(office, tool_args={**ARGS, "payee": "Very-Private-Ltd"}, summary="Summary-In-Clear")
    confirmations.sweep()
    found: dict[str, set[str]] = {}
    for marker in ("Very-Private-Ltd", "4111-1111"):
        found[marker] = {table for table in connection.introspection.table_names() if marker in _dump(table)}
    assert found == {"Very-Private-Ltd": {"hooks_app_connectorcalllog"}, "4111-1111": set()}


def _dump(table: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
        return str(cursor.fetchall())


def test_one_rule_says_who_reads_a_request_whichever_way_it_is_read(office: Office) -> None:
    """Known failure 31 of earlier systems: one route refused what another showed to every member."""
    request = lived(office)
    frank = make.user("frank", office.world.organization, "member")
    mallory = make.user("mallory", make.organization("globex"), "admin")
    for nosy in (frank, mallory):
        token, client = office.token(nosy), browser(nosy)
        assert office.call("GET", f"/confirmations/{request['id']}", bearer=token).status == 404
        assert office.call("GET", "/confirmations", bearer=token).body["results"] == []
        assert office.call("GET", "/calls", bearer=token).body.get("results", []) == []
        for address in (
            f"/inbox/{request['id']}/",
            "/inbox/",
            f"/admin/hooks_app/confirmationrequest/{request['id']}/change/",
            f"/admin/channels_app/delivery/{Delivery.objects.get().pk}/change/",
        ):
            answer = client.get(address, follow=True)
            assert "Initech" not in answer.content.decode(), address


def test_what_was_shown_and_decided_does_not_change_with_the_settings(office: Office) -> None:
    """Known failure 24 of earlier systems: the scope was read late, so widening it let a refused person in."""
    world = office.world
    request = office.ask()
    assert office.respond(request, world.dave).status == 403
    world.set_policy(scope="org_members", quorum=1, forbid_self_approval=False, timeout_seconds=9999)
    other = make.policy(world.organization, "lax", scope="org_members")
    world.set_agent(approval_policy=other.slug, confirmation_mode="inline_only")
    refused = office.respond(request, world.dave)
    assert (refused.status, refused.body["code"]) == (403, "not_an_approver")
    again = office.call("GET", f"/confirmations/{request['id']}").body
    assert (again["policy"], again["mode"], again["expires_at"]) == (
        request["policy"],
        request["mode"],
        request["expires_at"],
    )


def test_a_change_of_the_gate_is_on_record_with_its_author(office: Office) -> None:
    """Known failure 24 of earlier systems: the agent's owner changed its approval settings and no trace was left."""
    world = office.world
    address = f"/admin/hooks_app/agent/{world.agent.pk}/change/"
    owner = browser(world.dave)  # owns the agent, and is a member
    assert owner.get(address, follow=True).status_code in (403, 404)
    assert owner.post(address, {"confirmation_mode": "inline_only"}).status_code in (302, 403, 404)
    assert Agent.objects.get().confirmation_mode == "auto"
    token = office.token(world.dave)
    for method, path in (
        ("PUT", f"/agents/{world.agent.slug}"),
        ("PATCH", f"/agents/{world.agent.slug}/registry"),
    ):
        assert office.call(method, path, {"confirmation_mode": "inline_only"}, bearer=token).status in (
            403,
            404,
            405,
        )
    trail = AuditEvent.objects.filter(action="agent.published")
    before = trail.count()
    world.set_agent(require_confirmation_for_all=True)
    latest = trail.order_by("-sequence")[0]
    assert (trail.count(), latest.object_id, latest.actor_name) == (before + 1, str(world.agent.pk), "shell")


def test_a_channel_with_cards_is_switched_off_and_still_answers_for_them(office: Office) -> None:
    """Known failure 21 of earlier systems: the deleted channel's pending requests vanished with it."""
    request = office.ask()
    card = shown(request)
    browser(office.world.alice).post(
        f"/admin/channels_app/channel/{card.channel_id}/remove/", {"confirm": "yes"}
    )
    channel = Channel.objects.get(pk=card.channel_id)
    assert (channel.enabled, office.state(request)) == (False, ("pending", 0))
    assert office.respond(request, office.world.bob).status == 200
