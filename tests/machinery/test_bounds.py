"""No body is larger than its bound, whatever the client announces."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.machinery.live import Portal

MIB = 1024 * 1024


def chunks(size: int) -> Iterator[bytes]:
    """A body without a Content-Length."""
    for start in range(0, size, 65536):
        yield b" " * min(65536, size - start)


def send(portal: Portal, path: str, body: Any, key: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    return httpx.post(portal.url + path, content=body, headers=headers, timeout=30)


@pytest.mark.parametrize("announced", [True, False])
@pytest.mark.parametrize(
    ("path", "limit"),
    [("/api/v1/confirmations", MIB), ("/api/v1/calls", 8 * MIB), ("/login/", MIB), ("/nowhere", MIB)],
)
def test_more_than_the_bound_is_refused(
    portal: Portal, world: Any, path: str, limit: int, announced: bool
) -> None:
    def body(size: int) -> Any:
        return b" " * size if announced else chunks(size)

    refused = send(portal, path, body(limit + 1), world.key)
    assert (refused.status_code, refused.json()["code"]) == (413, "too_large")
    assert refused.headers["Content-Type"] == "application/problem+json"
    assert str(limit) in refused.json()["detail"]
    assert send(portal, path, body(limit), world.key).status_code != 413
