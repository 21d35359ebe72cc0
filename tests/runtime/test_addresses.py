"""One person is one address, however it was written; what is no address is told so."""

import unicodedata

import pytest
from hookgate import addresses

SAME = [
    ("kim@acme.test", [" kim@acme.test", "kim@acme.test\t", "\u3000kim@acme.test\u00a0", "KIM@Acme.TEST",
                       "kim@acme.test.", "kim@acme.test\r\n",
                       "\uff4bim@acme.test", "kim\uff20acme.test", "kim@acme\u3002test", "\u212aim@acme.test"]),
    ("kim+shop@acme.test", ["Kim+Shop@ACME.test"]),
    ("jos\u00e9@acme.test", ["jose\u0301@acme.test", "JOS\u00c9@acme.test", "JOSE\u0301@acme.test"]),
    ("strasse@acme.test", ["stra\u00dfe@acme.test", "STRASSE@acme.test", "STRA\u1e9eE@acme.test"]),
    ("kim@xn--bcher-kva.test", ["kim@b\u00fccher.test", "kim@BU\u0308CHER.test", "kim@XN--BCHER-KVA.test"]),
    ("\uae40@acme.test", [unicodedata.normalize("NFD", "\uae40@acme.test")]),
    ("o'brien@acme.test", ["O'Brien@acme.test"]),
    ("root@localhost", ["root@LOCALHOST"]),
]  # fmt: skip
NONE = [
    "", " ", "kim", "@acme.test", "kim@", "Kim <kim@acme.test>", "<kim@acme.test>", "mailto:kim@acme.test@x",
    "kim@acme.test, bob@acme.test", "kim@acme.test;bob@acme.test", "kim bob@acme.test", "kim@ acme.test",
    "kim@acme .test",
    "kim@@acme.test", "kim@bob@acme.test", '"kim"@acme.test', "kim(me)@acme.test", "kim@[127.0.0.1]", "kim@acme..test",
    ".kim@acme.test", "kim.@acme.test", "k..im@acme.test", "kim@-acme.test", "kim@acme_.test", "kim@acme.test\x00",
    "kim\u200b@acme.test", "\u200bkim@acme.test", "kim@acme.test\u2060", "ki\u00adm@acme.test", "kim\ufe0f@acme.test",
    "kim\u3164@acme.test", "k\u034fim@acme.test", "kim\U000e0041@acme.test", "kim\u202e@acme.test",
    "kim@ac\u200bme.test", "kim\ud800@acme.test", "kim\ue000@acme.test", "kim\n@acme.test", "k" * 65 + "@acme.test",
    "kim@" + "a" * 64 + ".test", "kim@acme", "kim@127.0.0.1", "kim@xn--a.test", "kim@xn--acme-.test", "kim@acme.test..",
    "kim\u115f@acme.test", "kim\u180e@acme.test", "kim\U00013430@acme.test", "kim@acme.te\u00adst",
    "\U0001f600@acme.test",
    "kim@" + ".".join(["a" * 60] * 5), "\u0661" * 33 + "@acme.test", "x" * 100_000,
]  # fmt: skip


@pytest.mark.parametrize(("normal", "written"), SAME, ids=[normal for normal, _ in SAME])
def test_the_ways_to_write_one_address_are_one(normal: str, written: list[str]) -> None:
    assert {addresses.normalize(text) for text in [normal, *written]} == {normal}


@pytest.mark.parametrize("text", NONE, ids=range(len(NONE)))
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(addresses.NotAnAddress) as refused:
        addresses.normalize(text)
    assert "kim@example.com" in str(refused.value)
    assert addresses.find(text) is None


def test_the_normal_form_is_one_of_itself() -> None:
    """Over every character that folding changes: doing it again changes nothing."""
    unstable = []
    for character in map(chr, range(0x110000)):
        if unicodedata.normalize("NFKC", character).casefold() == character:
            continue
        normal = addresses.find(f"a{character}b@acme.test")
        if normal is not None and addresses.find(normal) != normal:
            unstable.append(hex(ord(character)))
    addresses.normalize.cache_clear()
    assert unstable == []


def test_different_people_stay_different() -> None:
    people = [
        "kim@acme.test",
        "k.im@acme.test",
        "kim+a@acme.test",
        "kim@acme.example",
        "\u043a\u0456m@acme.test",
        "kin@acme.test",
        "kim@fa\u00df.test",
        "kim@fass.test",
    ]
    assert len({addresses.normalize(text) for text in people}) == len(people)
