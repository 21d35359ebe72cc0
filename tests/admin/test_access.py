"""What the pages of the admin site show to whom. Which page answers whom at all is in tests/access/table.txt."""

import pytest

from portal.admin.site import SECTIONS
from tests import make
from tests.admin import addresses
from tests.admin.tenant import Tenant, sign_in


def test_every_screen_has_a_row_in_the_tests_and_a_place_in_the_sidebar(acme: Tenant) -> None:
    for model, screen in addresses.screens():
        assert model in acme.rows, f"build a {model.__name__} in tests/admin/tenant.py"
        assert screen.section in SECTIONS
        assert screen.title
        assert screen.about
        assert screen.kind


@pytest.mark.parametrize("role", ["approver", "member"])
def test_approvers_and_members_have_no_admin(acme: Tenant, role: str) -> None:
    browser = sign_in(acme.people[role])
    assert browser.get("/admin/", follow=True).status_code == 403
    assert "Portal" not in browser.get("/inbox/").content.decode()


def test_an_admin_sees_the_own_rows_alone(acme: Tenant, initech: Tenant) -> None:
    browser = sign_in(acme.people["admin"])
    for model, screen in addresses.screens():
        page = browser.get(addresses.of_list(screen))
        assert page.status_code == 200, screen
        text = page.content.decode()
        assert addresses.of_row(screen, acme.row(model)) in text, screen
        assert str(initech.row(model).pk) not in text or isinstance(initech.row(model).pk, int), screen
        assert "initech" not in text, screen


def test_an_admin_gets_every_page_of_the_own_rows(acme: Tenant, initech: Tenant) -> None:
    browser = sign_in(acme.people["admin"])
    for screen, action, address in addresses.of_tenant(acme):
        answer = browser.get(address)
        expected = {200, 302} if action == "history" else {200, 403}
        assert answer.status_code in expected, address
        if action == "change":
            assert answer.status_code == 200, address
        assert "initech" not in answer.content.decode(), address
        add = browser.get(f"{addresses.of_list(screen)}add/")
        assert add.status_code in (200, 302, 403)
        assert "initech" not in add.content.decode(), address


def test_another_tenants_rows_can_be_neither_searched_nor_filtered(acme: Tenant, initech: Tenant) -> None:
    browser = sign_in(acme.people["admin"])
    for _model, screen in addresses.screens():
        for query in (
            "?q=initech",
            f"?organization__id__exact={initech.organization.pk}",
            f"?agent__id__exact={initech.agent.pk}",
            f"?object_id={initech.agent.pk}",
            "?organization=initech",
        ):
            text = browser.get(addresses.of_list(screen) + query, follow=True).content.decode()
            for row in initech.rows.values():
                if not isinstance(row.pk, int):
                    shown = text.replace(query.partition("=")[2], "")
                    assert f"/{row.pk}/" not in shown, (screen, query)


def test_the_automatic_completion_keeps_to_the_tenant(acme: Tenant, initech: Tenant) -> None:
    browser = sign_in(acme.people["admin"])
    for app, model, field in (
        ("hooks_app", "agent", "owner"),
        ("hooks_app", "runtimekey", "agent"),
        ("portal", "absence", "user"),
    ):
        query = {"app_label": app, "model_name": model, "field_name": field, "term": "initech"}
        answer = browser.get("/admin/autocomplete/", query)
        assert answer.status_code == 403 or answer.json()["results"] == []


def test_the_site_wide_search_keeps_to_the_tenant(acme: Tenant, initech: Tenant) -> None:
    browser = sign_in(acme.people["admin"])
    for query in ({"s": "initech"}, {"s": "initech", "extended": "1"}):
        assert "initech-" not in browser.get("/admin/search/", query).content.decode()


def test_an_auditor_is_offered_no_change(acme: Tenant) -> None:
    browser = sign_in(acme.people["auditor"])
    for _screen, action, address in addresses.of_tenant(acme):
        if action == "change":
            assert 'name="_save"' not in browser.get(address).content.decode(), address
            assert browser.post(address, {"_save": "1"}).status_code == 403, address


def test_nonsense_is_answered_in_good_order(acme: Tenant) -> None:
    browser = sign_in(acme.people["admin"])
    for _model, screen in addresses.screens():
        for action in addresses.row_actions(screen):
            for key in ("nonsense", "0", "11111111-1111-1111-1111-111111111111"):
                address = f"{addresses.of_list(screen)}{key}/{action}/"
                assert browser.get(address).status_code in (302, 403, 404), address
                assert browser.post(address, {}).status_code in (302, 403, 404), address
        for query in ("?q=%00", "?p=x", "?o=9.x", "?nonsense=1", "?agent__id__exact=nonsense"):
            assert browser.get(addresses.of_list(screen) + query).status_code in (200, 302, 400), query
    for query in ("?s=a&page=x", "?s=a&page=9"):
        assert browser.get(f"/admin/search/{query}").status_code == 400


def test_django_permissions_open_nothing(acme: Tenant) -> None:
    from django.contrib.auth.models import Permission

    member = acme.people["member"]
    member.is_staff = True
    member.save()
    member.user_permissions.set(Permission.objects.all())
    assert sign_in(member).get("/admin/", follow=True).status_code == 403


def test_a_role_that_ends_ends_at_once(acme: Tenant) -> None:
    browser = sign_in(acme.people["admin"])
    assert browser.get("/admin/").status_code == 200
    acme.people["admin"].memberships.update(role="member")
    assert browser.get("/admin/", follow=True).status_code == 403


def test_an_admin_of_two_organizations_may_not_join_them(acme: Tenant, initech: Tenant) -> None:
    both = make.user("both", acme.organization, "admin")
    initech.organization.memberships.create(user=both, role="admin")
    browser = sign_in(both)
    key = {"organization": str(acme.organization.pk), "agent": str(initech.agent.pk), "scopes": ["registry"]}
    answer = browser.post("/admin/hooks_app/runtimekey/add/", key)
    assert answer.status_code == 200
    assert "belongs to another organization" in answer.content.decode()
    binding = {
        "organization": str(acme.organization.pk),
        "user": str(initech.people["member"].pk),
        "external_id": "ou_new",
    }
    answer = browser.post("/admin/channels_app/identity/add/", binding)
    assert answer.status_code == 200
    assert "belongs to another organization" in answer.content.decode()
