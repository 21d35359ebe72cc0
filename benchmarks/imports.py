"""What importing the runtime costs, beside importing the HTTP client that it uses anyway."""

import http.server
import json
import subprocess
import sys
import threading
from functools import partial
from tempfile import TemporaryDirectory

from benchmarks.measure import Figure, alternate
from tests.runtime.documents import hook, manifest

ROUNDS = 7
LIMIT = {"max_calls": 10, "window_seconds": 60}
URL = "http://127.0.0.1:8000"
CLIENT = f"httpx.AsyncClient(base_url={URL!r}, verify=False)"


def run() -> list[Figure]:
    """``import hookgate`` alone, the class that connects, a verdict of a condition, and one made: the client comes only
    with that."""
    figures = []
    for name, statement, bare in (
        ("import_hookgate", "import hookgate", "import httpx"),
        ("import_runtime", "from hookgate import Runtime", "import httpx"),
        (
            "first_condition",
            "from hookgate.matching.matching import compile_condition; "
            "compile_condition('args.a > 1').evaluate({'args': {'a': 2}})",
            "import httpx",
        ),
        (
            "make_runtime",
            f"from hookgate import Runtime; Runtime({URL!r}, 'hg_x')",
            f"import httpx; {CLIENT}",
        ),
    ):
        ours, baseline = alternate(
            partial(milliseconds, statement), partial(milliseconds, bare), rounds=ROUNDS
        )
        if name == "make_runtime":
            figures.append(Figure(name, ours, baseline, "ms", "beside httpx and its client", met=True))
            continue
        figures.append(Figure(name, ours, baseline, "ms", "ratio ≤ 1.3 (httpx)", met=ours <= 1.3 * baseline))
    return [*figures, _first_verdict()]


_VERDICT = """
import asyncio
from hookgate import Runtime
async def main():
    async with Runtime({url!r}, "hg_x", spool={spool!r}) as runtime, runtime.session("procurement") as session:
        merged = await session.emit("PreToolUse", tool_name="oa__read", tool_args={{"amount": 5}})
        assert merged.allow and len(merged.trace) == 2, merged
        print(time.perf_counter() - started, flush=True)
        os._exit(0)
import os
asyncio.run(main())
"""


def _first_verdict() -> Figure:
    """From nothing to the first verdict of an agent with one condition, its registry from this machine's loopback."""
    document = json.dumps(
        manifest(hook("connector_rate_limit", when="args.amount > 10", params=LIMIT, source="class_hooks"))
    ).encode()

    class Portal(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(document)))
            self.end_headers()
            self.wfile.write(document)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Portal)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with TemporaryDirectory(prefix="hookgate-bench-") as spool:
        code = _VERDICT.format(url=f"http://127.0.0.1:{server.server_port}", spool=spool)
        ours, baseline = alternate(
            partial(milliseconds, code), partial(milliseconds, "import httpx"), rounds=ROUNDS
        )
    server.shutdown()
    return Figure("first_verdict", ours, baseline, "ms", "ratio ≤ 1.5 (httpx)", met=ours <= 1.5 * baseline)


def milliseconds(statement: str) -> float:
    """How long a fresh interpreter takes for ``statement``."""
    code = f"import time\nstarted = time.perf_counter()\n{statement}\nprint(time.perf_counter() - started)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return float(done.stdout.split()[0]) * 1000
