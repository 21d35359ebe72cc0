"""What no field takes, in every field of the forms that govern: an error at the field, and nothing is stored."""

from typing import Any

import pytest
from django.test import Client

from channels_app.models import Channel
from hooks_app.models import Agent, ApprovalPolicy, Connector, Declaration
from portal.models import Organization
from tests.admin.forms import fill
from tests.admin.tenant import Tenant, sign_in
from tests.config.documents import snapshot

EVIL = {
    "NUL": "a\0b",
    "long": "x" * 100_000,
    "number": "1" + "0" * 400,
    "exponent": "1e400",
    "NaN": "NaN",
    "infinity": "-Infinity",
    "deep": "[" * 10_000,
    "deep and closed": '{"a":' * 500 + "1" + "}" * 500,
    "surrogate": r'"\ud800"',
    "twice": '{"a": 1, "a": 2}',
    "scalar": "7",
    "markup": "<script>alert(1)</script>",
    "template": "{{ settings.SECRET_KEY }}{% debug %}",
    "line breaks": "a\r\nb",
    "path": "../../etc/passwd",
    "lone byte": "\udcff",
}
FORMS = {
    "agent": (Agent, "/admin/hooks_app/agent/{}/change/"),
    "new agent": (None, "/admin/hooks_app/agent/add/"),
    "declaration": (Declaration, "/admin/hooks_app/declaration/{}/change/"),
    "channel": (Channel, "/admin/channels_app/channel/{}/change/"),
    "new channel": (None, "/admin/channels_app/channel/add/?type=wecom"),
    "policy": (ApprovalPolicy, "/admin/hooks_app/approvalpolicy/{}/change/"),
    "new policy": (None, "/admin/hooks_app/approvalpolicy/add/"),
    "connector": (Connector, "/admin/hooks_app/connector/{}/change/"),
    "organization": (Organization, "/admin/portal/organization/{}/change/"),
}


@pytest.fixture
def browser(acme: Tenant) -> Client:
    """The admin's."""
    return sign_in(acme.people["admin"])


def address(acme: Tenant, form: str) -> str:
    model, pattern = FORMS[form]
    return pattern.format(acme.row(model).pk if model else "")


def is_ours(name: str) -> bool:
    """Whether a value is the person's, not the form's own."""
    return not name.endswith(("_FORMS", "csrfmiddlewaretoken")) and not name.startswith(("_", "initial-"))


def faults(answer: Any) -> dict[str, Any]:
    """The errors of a page by field."""
    found = dict(answer.context["adminform"].form.errors)
    for inline in answer.context["inline_admin_formsets"]:
        for form in inline.formset.forms:
            found |= {form.add_prefix(name): errors for name, errors in form.errors.items()}
    return found


@pytest.mark.parametrize("form", FORMS)
def test_what_no_field_takes_is_an_error_at_the_field(acme: Tenant, browser: Client, form: str) -> None:
    there = address(acme, form)
    filled = fill(browser.get(there))
    names = [name for name in filled if is_ours(name)]
    before = snapshot()
    for what, value in EVIL.items():
        sent = filled | dict.fromkeys(names, value)
        body = "&".join(
            f"{_quote(name)}={_quote(item)}" for name, items in sent.items() for item in _list(items)
        )
        answer = browser.post(there, body, content_type="application/x-www-form-urlencoded")
        assert answer.status_code == 200, (what, answer.status_code)
        found = faults(answer)
        assert found, what
        assert EVIL["markup"] not in answer.content.decode()
        if what == "NUL":
            fields = answer.context["adminform"].form.fields
            texts = [
                name
                for name in names
                if name in fields and not fields[name].disabled and _is_text(fields[name])
            ]
            assert set(texts) <= found.keys(), set(texts) - found.keys()
        assert snapshot() == before, what


def _list(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]


def _quote(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode("utf-8", "surrogateescape"))


def _is_text(field: Any) -> bool:
    return getattr(field.widget, "input_type", "text") in ("text", "number", "email", "url", "password")


@pytest.mark.parametrize("form", ["agent", "connector"])
@pytest.mark.parametrize("count", ["", "x", "-1", "a\0"])
def test_a_count_of_rows_that_is_none(acme: Tenant, browser: Client, form: str, count: str) -> None:
    there = address(acme, form)
    filled = fill(browser.get(there))
    counted = [name for name in filled if name.endswith("-TOTAL_FORMS")]
    assert counted
    before = snapshot()
    answer = browser.post(there, filled | dict.fromkeys(counted, count))
    assert answer.status_code in (200, 302, 400)
    assert snapshot() == before


# What a new channel needs beside its name: only then is the name looked at.
SETTINGS = {
    "new channel": {
        "config_corp_id": "ww1",
        "config_agent_id": "1000002",
        "config_secret": "a-secret",
        "config_token": "a-token",
        "config_encoding_aes_key": "a" * 43,
        "config_users": "bob",
    }
}
WRONG = [
    ("new agent", "slug", "Not A Slug"),
    ("new agent", "slug", ""),
    ("agent", "max_pending", "0"),
    ("agent", "max_pending", "10001"),
    ("agent", "unlisted_tools", "maybe"),
    ("agent", "confirmation_mode", "never"),
    ("agent", "owner", "3f0c9a52-6f0e-4b0e-9a3e-0d5f6c1b2a49"),
    ("agent", "max_stale_seconds", "14"),
    ("agent", "max_stale_seconds", "86401"),
    ("declaration", "when", "args."),
    ("declaration", "priority", "900"),
    ("declaration", "priority", "-1"),
    ("declaration", "timeout_seconds", "0"),
    ("declaration", "on_error", "ignore"),
    ("declaration", "mode", "off"),
    ("declaration", "tool_filter", "x" * 301),
    ("new policy", "slug", "a b"),
    ("policy", "quorum", "0"),
    ("policy", "quorum", "101"),
    ("policy", "reject_quorum", "0"),
    ("policy", "timeout_seconds", "0"),
    ("policy", "timeout_seconds", "259201"),
    ("policy", "start_by_seconds", "0"),
    ("policy", "scope", "everybody"),
    ("policy", "when", "args.amount >="),
    ("new channel", "slug", "runtime"),
    ("channel", "language", "de"),
    ("channel", "config_base_url", "http://10.0.0.1"),
    ("channel", "config_base_url", "javascript:alert(1)"),
    ("channel", "config_app_id", ""),
    ("organization", "time_zone", "Asia/Soul"),
    ("organization", "retention_days", "0"),
]


@pytest.mark.parametrize(("form", "field", "value"), WRONG, ids=[f"{f}-{n}-{v[:20]}" for f, n, v in WRONG])
def test_the_field_at_fault_says_so(acme: Tenant, browser: Client, form: str, field: str, value: str) -> None:
    there = address(acme, form)
    filled = fill(browser.get(there))
    before = snapshot()
    answer = browser.post(there, filled | SETTINGS.get(form, {}) | {field: value})
    assert answer.status_code == 200
    assert field in faults(answer), faults(answer)
    assert snapshot() == before
