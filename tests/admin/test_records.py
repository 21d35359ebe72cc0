"""Requests, calls and the audit trail, as an auditor reads them."""

import pytest
from django.test import Client

from hooks_app import digests
from hooks_app.models import ConfirmationRequest, ConnectorCallLog
from portal.models import AuditEvent
from tests.admin.tenant import Tenant, sign_in


@pytest.fixture
def browser(acme: Tenant) -> Client:
    """The auditor's."""
    return sign_in(acme.people["auditor"])


def test_a_request_tells_who_decided_when_and_where(acme: Tenant, browser: Client) -> None:
    row = acme.row(ConfirmationRequest)
    page = browser.get(f"/admin/hooks_app/confirmationrequest/{row.pk}/change/").content.decode()
    for fact in (
        "acme_oa__pay",
        "&quot;card_number&quot;: &quot;[redacted]&quot;",
        "&quot;amount&quot;: 5",
        "acme-approver",
        "inbox or API",
        "fine",
        "acme-chat: ",
        "revision 1",
        str(digests.tag(row.organization_id, row.args_digest)),
        str(row.registry_digest),
    ):
        assert fact in page, fact
    # A digest would tell the card's number to whoever tries them all.
    assert row.requested_digest not in page
    assert f"/admin/hooks_app/connectorcalllog/{acme.row(ConnectorCallLog).pk}/change/" in page


def test_a_call_tells_what_happened(acme: Tenant, browser: Client) -> None:
    row = acme.row(ConnectorCallLog)
    page = browser.get(f"/admin/hooks_app/connectorcalllog/{row.pk}/change/").content.decode()
    for fact in (
        "acme_oa__pay",
        "Kim · kim@example.test · u1",
        "3.5 ms",
        "approval_gate",
        "&quot;amount&quot;: 5",
    ):
        assert fact in page, fact
    assert f"/admin/hooks_app/confirmationrequest/{acme.row(ConfirmationRequest).pk}/change/" in page


@pytest.mark.parametrize(
    ("screen", "query", "hits"),
    [
        ("hooks_app/confirmationrequest", "status__exact=approved", 1),
        ("hooks_app/confirmationrequest", "status__exact=rejected", 0),
        ("hooks_app/confirmationrequest", "q=acme_oa__pay", 1),
        ("hooks_app/confirmationrequest", "q=nothing", 0),
        ("hooks_app/connectorcalllog", "status__exact=succeeded", 1),
        ("hooks_app/connectorcalllog", "status__exact=blocked", 0),
        ("hooks_app/connectorcalllog", "q=u1", 1),
        ("portal/auditevent", "action=agent.published", 1),
        ("portal/auditevent", "q=confirmation.approved", 1),
    ],
)
def test_filters_and_search(acme: Tenant, browser: Client, screen: str, query: str, hits: int) -> None:
    answer = browser.get(f"/admin/{screen}/?{query}")
    assert answer.status_code == 200
    assert answer.context["cl"].result_count == hits


def test_arguments_draw_nothing(acme: Tenant, browser: Client) -> None:
    row = acme.row(ConnectorCallLog)
    row.args = row.result = {"note": "</pre><script>alert(1)</script>"}
    row.reason = "<img src=x onerror=alert(1)>"
    row.save()
    page = browser.get(f"/admin/hooks_app/connectorcalllog/{row.pk}/change/").content.decode()
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert page.count("&lt;script&gt;alert(1)") == 2


def test_what_belongs_to_no_organization_is_not_for_auditors(acme: Tenant, browser: Client) -> None:
    unowned = AuditEvent.objects.filter(organization=None).first()
    assert unowned is not None
    assert browser.get(f"/admin/portal/auditevent/{unowned.pk}/change/").status_code == 302
    assert unowned.action not in [
        event.action for event in browser.get("/admin/portal/auditevent/").context["cl"].result_list
    ]
