"""Answers don't wait for a packet of the other side."""

import http.client
import time
from urllib.parse import urlsplit

from tests.machinery.live import Portal

# What a held-back second packet of an answer costs on Linux: its shortest delayed acknowledgement.
DELAYED_ACK = 0.040


def test_answers_on_a_kept_connection_are_not_held_back(portal: Portal) -> None:
    address = urlsplit(portal.url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=10)
    times = []
    for _ in range(60):
        started = time.perf_counter()
        connection.request("GET", "/healthz")
        assert connection.getresponse().read()
        times.append(time.perf_counter() - started)
    connection.close()
    # The first answers are acknowledged at once in any case, so only later ones say something.
    assert min(times[30:]) < DELAYED_ACK
