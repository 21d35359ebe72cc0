"""More kinds of broken files: what a file is, names that lead nowhere, names given twice, several errors at once."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.config import documents
from tests.config.test_every_field import ORG, base, expect
from tests.fields import Field, set_in

pytestmark = pytest.mark.django_db

# Every place that names something else.
REFERENCES: list[tuple[Any, ...]] = [
    ("approval_policy",),
    ("members", 0, "identities", 0, "channel"),
    ("groups", 0, "members", 0),
    ("absences", 0, "user"),
    ("absences", 0, "substitute"),
    ("approval_policies", 0, "group"),
    ("approval_policies", 0, "escalate_to", "group"),
    ("approval_policies", 0, "stages", 0, "group"),
    ("connectors", 0, "actions", 0, "policy"),
    ("agents", 0, "owner"),
    ("agents", 0, "approval_policy"),
    ("agents", 0, "approval_channels", 0),
    ("agents", 0, "fallback_channels", 0),
    ("agents", 0, "may_delegate_to", 0),
    ("agents", 0, "tools", 0, "policy"),
]
# Every list whose entries have names, and the key of the name; None: the entry is one.
NAMED: list[tuple[tuple[Any, ...], str | None]] = [
    ((), "slug"),
    (("members",), "user"),
    (("members", 0, "identities"), "channel"),
    (("groups",), "slug"),
    (("groups", 0, "members"), None),
    (("absences",), "user"),
    (("channels",), "slug"),
    (("approval_policies",), "slug"),
    (("connectors",), "slug"),
    (("connectors", 0, "actions"), "name"),
    (("agents",), "slug"),
    (("agents", 0, "tools"), "name"),
    (("agents", 0, "approval_channels"), None),
    (("agents", 0, "fallback_channels"), None),
    (("agents", 0, "may_delegate_to"), None),
]


def test_every_name_that_leads_nowhere(tmp_path: Path) -> None:
    """All at once; a name of another organization is as unknown as one of nobody."""
    for name in ("nobody", "theirs"):
        document = base()
        other = {"slug": "theirs", "groups": [{"slug": "theirs"}], "agents": [{"slug": "theirs"}]}
        other |= {"approval_policies": [{"slug": "theirs"}], "members": [{"user": "theirs"}]}
        document["organizations"].append(other)
        for place in REFERENCES:
            set_in(document, (*ORG, *place), name)
        before = documents.snapshot()
        expect(tmp_path, document, [Field((*ORG, *place), {}).path for place in REFERENCES], name)
        assert documents.snapshot() == before


def test_every_name_that_is_given_twice(tmp_path: Path) -> None:
    document = base()
    paths = []
    for place, key in NAMED:
        entries = document["organizations"]
        for step in (*ORG[1:], *place) if place else ():
            entries = entries[step]
        entries.append(entries[0])
        last = Field((*ORG, *place, len(entries) - 1) if place else ("organizations", 1), {}).path
        paths.append(f"{last}.{key}" if key else last)
    expect(tmp_path, document, paths, "twice")


def test_errors_come_in_the_order_of_the_file(tmp_path: Path) -> None:
    document = base()
    bad: list[tuple[tuple[Any, ...], Any]] = [
        (("time_zone",), "nowhere"),
        (("freshness", "max_stale_seconds"), 86_401),
        (("members", 1, "email"), "alice"),
        (("groups", 0, "members", 0), "nobody"),
        (("channels", 0, "config", "app_key"), "x"),
        (("approval_policies", 0, "when"), "args."),
        (("agents", 0, "owner"), "nobody"),
        (("agents", 0, "hooks", "class_hooks", 0, "parms"), {}),
    ]
    for place, value in reversed(bad):
        set_in(document, (*ORG, *place), value)
    for options in ((), ("--dry-run",), ("--prune",), ("--dry-run", "--prune")):
        ended = documents.apply(tmp_path, document, *options)
        assert (ended.code, ended.out) == (1, [])
        named = [line.partition(": ")[0] for line in ended.err]
        assert named == [Field((*ORG, *place), {}).path for place, _ in bad]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"apiVersion: hookgate/v1\norganizations:\n\t- slug: acme\n", "is not YAML"),
        (b"apiVersion: \x00\n", "is not YAML"),
        (b"? [a]\n: 1\n", "must be a text"),
        (b"null: 1\n", "must be a text"),
        (b"true: 1\n", "must be a text"),
        (b"a: *unknown\n", "is not YAML"),
        (b"%YAML 9.9\n---\na: 1\n", "is not YAML"),
        (b"a: b: c\n", "is not YAML"),
        (b'a: "\\ud800"\n', ""),
        (b'a: "\\U00110000"\n', "is not YAML"),
        (b"a: 'x\n", "is not YAML"),
        (b"- a\nb: 1\n", "is not YAML"),
        (b"<<: 1\n", "<< takes an object"),
        (b"a: -.inf\n", "NaN"),
        (b"\xff\xfea\x00", "is not UTF-8"),
        (b"\xc3\x28", "is not UTF-8"),
        (b"#" * 100, "is empty"),
        (b"x" * 1000, "must be an object"),
        (b"a: !!int x\n", ""),
        (b"a: !!float x\n", ""),
    ],
)
def test_what_is_no_document_says_so_in_one_line(tmp_path: Path, text: bytes, words: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_bytes(text)
    before = documents.snapshot()
    ended = documents.apply_file(file)
    assert (ended.code, ended.out) == (1, [])
    assert len(ended.err) == 1
    where, _, message = ended.err[0].partition(": ")
    assert where
    assert message
    assert words in message
    assert documents.snapshot() == before


def test_a_file_of_50_megabytes_is_not_read_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    with file.open("wb") as sparse:
        sparse.truncate(50 * 1024 * 1024)
    ended = documents.apply_file(file)
    assert (ended.code, ended.err) == (1, ["(document): has more than 4 MiB; split it by organization"])


def test_what_can_not_be_read_at_all(tmp_path: Path) -> None:
    locked = tmp_path / "locked.yaml"
    locked.write_text("apiVersion: hookgate/v1\n")
    locked.chmod(0)
    places = [tmp_path, tmp_path / "nothing.yaml", locked / "inside", tmp_path / ("x" * 300)]
    for place in places + ([locked] if os.geteuid() else []):
        ended = documents.apply_file(place)
        assert (ended.code, ended.out) == (1, [])
        assert len(ended.err) == 1
        assert ended.err[0].startswith(f"{place}: can't be read: ")


@pytest.mark.parametrize("path", ["a..b", ".a", "a.", " ", "items[0].card", "items[].card", "items[*]"])
def test_a_path_that_would_hide_nothing(tmp_path: Path, path: str) -> None:
    document = documents.small(connectors=[{"slug": "oa", "actions": [{"name": "pay", "redact": [path]}]}])
    expect(tmp_path, document, ["organizations[0].connectors[0].actions[0].redact[0]"], path)


def test_a_placeholder_in_a_name_is_said_to_be_one(tmp_path: Path) -> None:
    document = documents.small(name="${ACME_NAME}")
    document["organizations"][0]["slug"] = "${ACME_NAME}"
    ended = documents.apply(tmp_path, document)
    assert [line.split(": ")[0] for line in ended.err] == ["organizations[0].slug", "organizations[0].name"]
    assert all("${…} is replaced only" in line for line in ended.err)
