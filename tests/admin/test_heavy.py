"""Lists read no big columns: what agents send is paid for when it is stored, and when somebody opens it."""

import re

import pytest
from django.apps import apps
from django.db import connection, models
from django.test.utils import CaptureQueriesContext

from portal.lib.fields import EncryptedJSONField
from tests.admin import addresses
from tests.admin.tenant import Tenant, sign_in

# What a list draws or judges by: who somebody is, how a channel fares, whether a draft is what is published.
NEEDED = {
    ("hooks_app_publication", "content"),
    ("hooks_app_agenttool", "description"),
    ("hooks_app_agenttool", "redact"),
    ("hooks_app_agenttool", "schema"),
    ("hooks_app_confirmationrequest", "initiator"),
    ("hooks_app_connectorcalllog", "user"),
    ("hooks_app_registryhead", "errors"),
    ("hooks_app_registryhead", "warnings"),
}
# What admins write is small and bounded by its forms.
GOVERNED = {
    "Agent",
    "ApprovalPolicy",
    "Declaration",
    "Organization",
    "RuntimeKey",
    "PersonalToken",
    "Channel",
}


def big_columns() -> set[tuple[str, str]]:
    """Every column without a bound on its length, of every table that others than admins fill."""
    return {
        (model._meta.db_table, column.attname)
        for model in apps.get_models()
        if model._meta.app_label in {"portal", "channels_app", "hooks_app"} and model.__name__ not in GOVERNED
        for column in model._meta.concrete_fields
        if isinstance(column, EncryptedJSONField | models.JSONField | models.TextField)
    } - NEEDED


@pytest.mark.parametrize(
    "screen", [screen for _model, screen in addresses.screens()], ids=lambda s: s.opts.label
)
def test_no_list_of_the_admin_reads_a_big_column(screen, acme: Tenant) -> None:
    browser = sign_in(acme.people["admin"])
    with CaptureQueriesContext(
        connection,
    ) as captured:
        assert browser.get(addresses.of_list(screen)).status_code == 200
    table = screen.opts.db_table
    listed = [
        query["sql"] for query in captured.captured_queries if re.search(rf'FROM "{table}"', query["sql"])
    ]
    read = {
        (of, column)
        for sql in listed
        for of, column in re.findall(r'"(\w+)"\."(\w+)"', sql.partition(" WHERE ")[0])
    }
    assert listed
    assert read & big_columns() == set()
