"""Where a runtime takes the portal to be."""

from __future__ import annotations

from typing import Any

import pytest
from hookgate import Runtime, SyncRuntime

from tests.runtime.fake_portal import KEY

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("http://127.0.0.1:8000", None), ("http://127.9.8.7/", "http://127.9.8.7"), ("http://localhost:1", None),
        ("http://LOCALHOST", None), ("http://portal.localhost:8000", None), ("http://localhost.", None),
        ("http://[::1]:8000", None), ("http://[::ffff:127.0.0.1]", None), ("HTTPS://gate.test", "https://gate.test"),
        ("https://gate.test/", "https://gate.test"), ("https://10.0.0.1:8443", None),
    ],
)  # fmt: skip
def test_an_origin_is_taken_and_plain_http_to_this_machine(url: str, origin: str | None) -> None:
    assert Runtime(url, KEY).portal.url == (origin or url)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://gate.test", "allow_http=True"), ("http://10.0.0.1:8000", "allow_http=True"),
        ("http://0.0.0.0:8000", "allow_http=True"), ("http://127.0.0.1.evil.test", "allow_http=True"),
        ("http://localhost.evil.test", "allow_http=True"), ("http://[fe80::1]", "allow_http=True"),
        ("http://2130706433", "allow_http=True"), ("http://127.1", "allow_http"), ("HTTP://gate.test", "allow_http"),
        (f"https://user:{SECRET}@gate.test", "no user and no password"), (f"https://{SECRET}@gate.test", "no user"),
        ("https://@gate.test", "no user"), ("http://localhost@gate.test", "no user"),
        ("https://gate.test/portal", "no path.*https://gate.test$"), ("https://gate.test//", "no path"),
        ("https://gate.test/api/v1/", "no path"), ("https://gate.test?", "no query"),
        ("https://gate.test/#", "no query"),
        (f"https://gate.test/?key={SECRET}", "no query"), ("gate.test", "not the portal's origin"),
        ("ftp://gate.test", "not the portal's origin"), ("https://", "not the portal's origin"),
        ("", "not the portal's"),
        ("https://gate.test:x", "not an address"), ("https://gate.test:99999", "not an address"),
        ("https://[::1", "not an address"), ("https://gate.test:0", "not the portal's origin"),
        (" https://gate.test", "blanks"), ("https://gate.test\n", "blanks"), ("https://ga te.test", "blanks"),
        (None, "must be a text"), (b"https://gate.test", "must be a text"),
    ],
)  # fmt: skip
def test_anything_else_is_refused_at_once_and_no_secret_is_repeated(url: Any, message: str) -> None:
    for make in (Runtime, SyncRuntime):
        with pytest.raises(ValueError, match=message) as refused:
            make(url, KEY)
        assert SECRET not in str(refused.value)


def test_plain_http_may_be_meant_and_the_environment_is_read_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Runtime("http://gate.test:8000/", KEY, allow_http=True).portal.url == "http://gate.test:8000"
    monkeypatch.setenv("HOOKGATE_URL", "http://gate.test:8000")
    monkeypatch.setenv("HOOKGATE_KEY", KEY)
    for make in (Runtime, SyncRuntime):
        with pytest.raises(ValueError, match="allow_http=True"):
            make.from_env()
        make.from_env(allow_http=True)
