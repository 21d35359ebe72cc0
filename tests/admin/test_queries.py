"""A list is no oracle: its address asks what the list declares, and nothing else reaches the database."""

import itertools
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from django.contrib import admin
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.db.models import Field
from django.test import Client

from portal.admin.site import site
from portal.models import Organization, Role, User
from tests.admin import addresses
from tests.admin.tenant import Tenant, sign_in
from tests.soak import counts

# A value that no page shows and no session holds: a statement with it was made of the query.
MARK = "zq7"
OPERATORS = (
    "", "exact", "iexact", "contains", "icontains", "startswith", "endswith", "regex", "iregex", "gt", "gte", "lt",
    "lte", "in", "range", "isnull", "year", "length", "contains__regex", "0",
)  # fmt: skip
ROLES = ("auditor", "admin", "superuser")


def columns(model: Any) -> Iterator[str]:
    """Every column of a model, of the rows that it refers to, and of those that refer to it."""
    for field in model._meta.get_fields():
        yield field.name
        related = field.related_model
        if field.is_relation and related is not None:
            yield from (f"{field.name}__{other.name}" for other in related._meta.get_fields())
        if isinstance(field, Field) and field.attname != field.name:
            yield field.attname


def declared(screen: Any) -> set[str]:
    """What the links of the list's own filters may name."""
    found = set()
    for entry in screen.list_filter:
        if isinstance(entry, type) and issubclass(entry, admin.SimpleListFilter):
            found.add(str(entry.parameter_name))
            continue
        path = entry[0] if isinstance(entry, tuple) else entry
        target = screen.opts.get_field(path)
        suffixes = ("", "__exact", "__gte", "__lt", "__isnull")
        found |= {f"{path}{suffix}" for suffix in suffixes}
        if target.is_relation:
            found.add(f"{path}__{target.target_field.name}__exact")
    if screen.date_hierarchy:
        found |= {f"{screen.date_hierarchy}__{part}" for part in ("year", "month", "day")}
    return found


def people(acme: Tenant) -> dict[str, Client]:
    """A browser for each role that may see lists."""
    boss = User.objects.create(username="boss", is_superuser=True)
    return {**{role: sign_in(acme.people[role]) for role in ROLES[:2]}, "superuser": sign_in(boss)}


def asked(browser: Client, address: str) -> tuple[Any, list[str]]:
    """The answer, and every statement that it took, with its values."""
    statements = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        statements.append(f"{sql} {params}")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        answer = browser.get(address)
    return answer, statements


def test_no_column_can_be_asked_by_an_operator(acme: Tenant) -> None:
    browsers = people(acme)
    faults, rounds = [], 0
    for turn, (_model, screen) in enumerate(addresses.screens()):
        names = [
            f"{column}__{operator}".removesuffix("__")
            for column, operator in itertools.product(columns(screen.model), OPERATORS)
        ]
        forbidden = [name for name in names if name not in declared(screen)]
        # In the ordinary run a part of them, each column and operator for each role at least once over all lists.
        step = 1 if counts.SOAK else 499
        for offset, role in enumerate(ROLES):
            for name in forbidden[offset * 103 + turn % 13 :: step]:
                rounds += 1
                answer, statements = asked(browsers[role], f"{addresses.of_list(screen)}?{name}={MARK}")
                if answer.status_code != 400 or any(MARK in statement for statement in statements):
                    faults.append((role, screen.kind, name, answer.status_code))
                elif name not in answer.content.decode():
                    faults.append((role, screen.kind, name, "is not named"))
    assert rounds > 100
    assert faults == []


NOBODY = [
    "password__startswith=argon2",
    "password__regex=^a",
    "_facets=True",
    "_popup=1",
    "_to_field=id",
    "_to_field=password",
    "all=",
    "e=1",
    "utm_source=x",
    "pk=1",
    "id__in=1,2",
    "organization__slug__startswith=a",
    "Q=x",
    "q[]=x",
    "q=%00",
    "q=a&q=b",
    "q=" + "a+" * 2000,
    "q=" + "x" * 100_000,
    "q=" + quote("'a' " * 11),
    "p=0",
    "p=-1",
    "p=x",
    "p=" + "9" * 5000,
    "p=999999",
    "p=%D9%A1",
    "p=1&p=2",
    "o=99",
    "o=password",
    "o=-",
    "o=0.0",
    "o=" + "1." * 5000,
    "o=%D9%A1",
    "o=" + "9" * 5000,
    "date_joined__year=99999",
    "last_login__gte=x",
    "%00=1",
    "=1",
    "x" * 5000 + "=1",
    "&".join(f"a{n}=1" for n in range(1500)),
    "%ff%fe=%ff",
]


def test_what_no_list_takes(acme: Tenant) -> None:
    browser = sign_in(acme.people["admin"])
    screens = [screen for _model, screen in addresses.screens()]
    for number, query in enumerate(NOBODY):
        for screen in (
            screens if counts.SOAK else (screens[number % len(screens)], screens[-number % len(screens)])
        ):
            answer = browser.get(f"{addresses.of_list(screen)}?{query}")
            assert answer.status_code == 400, (screen, query[:80])


BAD = {
    "__year": ("99999", "0", "-1", "x", "", "2024.5", "²", "9" * 5000),
    "__gte": (
        "x",
        "",
        "99999-01-01",
        "2024-02-30",
        "1969-12-31",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "1e400",
    ),
    "__exact": ("", "nonsense", "\0", "9" * 400, "x" * 100_000, "{}", "null"),
    "__isnull": ("", "x", "2", "None"),
}


def test_values_of_declared_filters_are_judged(acme: Tenant) -> None:
    browser = sign_in(acme.people["admin"])
    cases = [
        (screen, name, value)
        for _model, screen in addresses.screens()
        for name in sorted(declared(screen))
        for suffix, values in BAD.items()
        for value in (values if name.endswith(suffix) else ())
    ]
    assert len(cases) > 200
    for screen, name, value in cases if counts.SOAK else cases[::5]:
        answer = browser.get(f"{addresses.of_list(screen)}?{name}={quote(value)}")
        assert answer.status_code == 400, (screen, name, value[:40])
        assert name in answer.content.decode()


def test_a_time_is_told_with_its_zone(acme: Tenant) -> None:
    browser = sign_in(acme.people["admin"])
    calls = "/admin/hooks_app/connectorcalllog/"
    for value, status in (("2024-01-01", 400), ("2024-01-01T00:00:00", 400), ("2024-01-01T00:00:00Z", 200)):
        assert browser.get(calls, {"started_at__gte": value}).status_code == status, value
    assert (
        browser.get("/admin/portal/absence/", {"first_day__gte": "2031-01-01"}).context["cl"].result_count
        == 1
    )
    assert (
        browser.get("/admin/portal/absence/", {"first_day__gte": "2031-01-02"}).context["cl"].result_count
        == 0
    )


def test_every_link_of_a_list_leads_somewhere(acme: Tenant) -> None:
    """What a list offers of filters, order and days is what it takes."""
    browser = sign_in(acme.people["admin"])
    followed = 0
    for _model, screen in addresses.screens():
        page = browser.get(addresses.of_list(screen))
        cl = page.context["cl"]
        links = [choice["query_string"] for spec in cl.filter_specs for choice in spec.choices(cl)]
        links += [
            f"?o={index}" for index in range(len(cl.list_display)) if f"?o={index}" in page.content.decode()
        ]
        if screen.date_hierarchy:
            links += [
                f"?{screen.date_hierarchy}__year=2026",
                f"?{screen.date_hierarchy}__year=2026&{screen.date_hierarchy}__month=2",
            ]
        for link in links if counts.SOAK else links[::4]:
            followed += 1
            assert browser.get(addresses.of_list(screen) + link).status_code == 200, (screen, link)
    assert followed > 40


def test_a_filter_with_one_choice_is_obeyed(acme: Tenant) -> None:
    browser = sign_in(acme.people["admin"])
    nobody = "11111111-1111-1111-1111-111111111111"
    page = browser.get(f"/admin/hooks_app/agent/?organization__id__exact={nobody}")
    assert page.context["cl"].result_count == 0
    page = browser.get(f"/admin/hooks_app/agent/?organization__id__exact={acme.organization.pk}")
    assert page.context["cl"].result_count == 1


def test_the_history_of_a_row_is_its_own(acme: Tenant) -> None:
    browser = sign_in(acme.people["auditor"])
    answer = browser.get(f"/admin/hooks_app/agent/{acme.agent.pk}/history/", follow=True)
    assert answer.status_code == 200
    rows = answer.context["cl"].result_list
    assert {row.object_id for row in rows} == {str(acme.agent.pk)}
    assert browser.get("/admin/portal/auditevent/?object_id=" + "x" * 201).status_code == 400


def test_the_way_back_to_a_list_asks_no_more_than_the_list(acme: Tenant) -> None:
    browser = sign_in(acme.people["admin"])
    person = f"/admin/portal/user/{acme.people['member'].pk}"
    for page in (f"{person}/change/", "/admin/portal/user/add/", f"{person}/set_password/"):
        for query in ("password__startswith=a", "q=a&q=b", "_facets=1", "o=99", "date_joined__year=99999"):
            answer = browser.get(page, {"_changelist_filters": query})
            assert answer.status_code == 400, (page, query)
            assert parse_qs(query).popitem()[0] in answer.content.decode()
        for query in ("_to_field=password", "_to_field=email__regex", "_popup=2", "_popup=1&_popup=1"):
            assert browser.get(f"{page}?{query}").status_code == 400, (page, query)
    back = browser.get(f"{person}/change/", {"_changelist_filters": "is_active__exact=1&q=acme"})
    assert back.status_code == 200
    assert "is_active__exact%3D1" in back.content.decode()


def test_an_address_fills_in_no_form(acme: Tenant) -> None:
    browser = sign_in(acme.people["admin"])
    for _model, screen in addresses.screens():
        if not screen.creatable:
            continue
        fields = [field.name for field in screen.opts.get_fields()]
        for value in ("99999", str(acme.organization.pk)):
            answer = browser.get(f"{addresses.of_list(screen)}add/", dict.fromkeys(fields, value))
            assert answer.status_code in (200, 302, 403), (screen, value)


def test_completion_and_search_of_the_whole_site_are_closed(acme: Tenant) -> None:
    browser = sign_in(acme.people["admin"])
    owner = {"app_label": "hooks_app", "model_name": "agent", "field_name": "owner", "term": "a"}
    assert browser.get("/admin/autocomplete/", owner).status_code == 403
    assert browser.get("/admin/autocomplete/", {**owner, "password__regex": "a"}).status_code == 400
    assert browser.get("/admin/autocomplete/", {**owner, "term": "a " * 2000}).status_code == 400
    assert browser.get("/admin/search/", {"s": "acme", "x": "1"}).status_code == 400
    assert browser.get("/admin/search/", {"s": "a " * 2000}).status_code == 400
    assert browser.get("/admin/search/", {"s": "x" * 100_000}).status_code == 400
    for key in ("nonsense", "0", str(acme.agent.pk)):
        assert browser.get(f"/admin/r/1/{key}/").status_code in (404, 400), key


def test_a_screen_that_nobody_bounds_is_not_registered() -> None:
    with pytest.raises(ImproperlyConfigured, match="ScopedAdmin"):
        site.register(Organization, admin.ModelAdmin)
    with pytest.raises(ImproperlyConfigured, match="ScopedAdmin"):
        site.register(Role)


def test_a_list_is_sorted_by_its_columns(acme: Tenant) -> None:
    browser = sign_in(acme.people["admin"])
    first = browser.get("/admin/portal/user/?o=-0").context["cl"].result_list
    assert [row.username for row in first] == sorted((row.username for row in first), reverse=True)
    # `roles` is computed: there is nothing to sort by.
    assert browser.get("/admin/portal/user/?o=3").status_code == 400


@pytest.mark.parametrize(
    "query", ["x=1", "page=0", "page=x", "page=1&page=2", "page=" + "9" * 5000, "status=pending"]
)
def test_the_inbox_takes_pages_alone(acme: Tenant, query: str) -> None:
    browser = sign_in(acme.people["approver"])
    for page in ("/inbox/", "/inbox/history/"):
        answer = browser.get(f"{page}?{query}")
        assert answer.status_code == 400, page
        assert urlsplit(f"?{query}").query.partition("=")[0] in answer.content.decode()
    assert browser.get("/inbox/history/?page=1").status_code == 200
