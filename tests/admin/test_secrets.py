"""No page shows a secret, and looking changes nothing."""

import json
from typing import Any

from django.apps import apps

from hooks_app.registry import heads
from portal.models import User
from tests.admin import addresses
from tests.admin.tenant import CARD_NUMBER, SECRETS, Tenant, sign_in

# Rows that every request may write: the session, and the lock-out of django-axes.
UNGOVERNED = {"sessions", "axes"}


def everything() -> str:
    """All rows of all tables, to be compared."""
    rows: list[Any] = []
    for model in apps.get_models():
        if model._meta.app_label not in UNGOVERNED and model._meta.label != "portal.User":
            rows += [model._meta.label, *model._default_manager.order_by("pk").values()]
    rows += User.objects.order_by("pk").values("pk", "username", "email", "is_active", "password")
    return json.dumps(rows, default=str)


def pages(tenant: Tenant) -> list[str]:
    """Each page of the tenant's rows and lists, once."""
    of_tenant = addresses.of_tenant(tenant)
    found = [path for screen, _action, address in of_tenant for path in (address, addresses.of_list(screen))]
    return list(dict.fromkeys(found))


def test_no_page_shows_a_secret(acme: Tenant) -> None:
    root = User.objects.create_superuser("root", "root@example.test", "a long enough one")
    hidden = [*SECRETS.values(), CARD_NUMBER, "S3CRET", *acme.plain]
    hidden += [user.password for user in User.objects.all() if len(user.password) > 40]
    hidden += [
        acme.rows[type(row)].digest
        for row in acme.rows.values()
        if type(row).__name__ in ("PersonalToken", "RuntimeKey")
    ]
    delivery = next(row for row in acme.rows.values() if type(row).__name__ == "Delivery")
    hidden += [delivery.ref_digest]
    for user in (acme.people["admin"], acme.people["auditor"], root):
        browser = sign_in(user)
        for path in pages(acme):
            text = browser.get(path).content.decode()
            found = [secret for secret in hidden if secret in text]
            assert found == [], path


def test_looking_changes_nothing(acme: Tenant) -> None:
    heads.head(acme.agent)
    browser = sign_in(acme.people["admin"])
    before = everything()
    lists = {addresses.of_list(screen) for screen, _action, _address in addresses.of_tenant(acme)}
    for path in [*pages(acme), *(f"{path}add/" for path in sorted(lists))]:
        browser.get(path)
        browser.head(path)
    browser.get(f"/admin/hooks_app/agent/{acme.agent.pk}/registry/?surface=eval")
    browser.get(f"/admin/hooks_app/agent/{acme.agent.pk}/registry/?of=draft")
    browser.get("/admin/")
    assert everything() == before


def test_forms_need_their_token(acme: Tenant) -> None:
    browser = sign_in(acme.people["admin"], csrf=True)
    before = everything()
    for _screen, action, address in addresses.of_tenant(acme):
        if action not in ("history", "registry", "add_hook"):
            assert browser.post(address, {"_save": "1", "post": "yes"}).status_code == 403, address
    assert everything() == before
