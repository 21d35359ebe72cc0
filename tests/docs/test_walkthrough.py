"""The walkthrough's commands do what they say, and so does the example in another language."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from examples.portal_process import PortalProcess
from tests import services
from tests.docs.tables import DOCS, ROOT
from tests.machinery.live import until
from tests.soak import counts

SECONDS = 90.0
PAGE = (DOCS / "api" / "walkthrough.md").read_text(encoding="utf-8")
VECTORS = DOCS / "api" / "digests.json"
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="Node is not installed")

# JSON.parse keeps one of two equal keys: a program in JavaScript never has such arguments.
PARSED_AWAY = {"repeated key", "repeated key by escape"}


def blocks(language: str) -> list[str]:
    """The page's blocks in a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def portal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PortalProcess]:
    """A portal with the page's file applied."""
    folder = tmp_path_factory.mktemp("walkthrough")
    with PortalProcess(folder) as running:
        services.migrate(running)
        (folder / "shop.yaml").write_text(blocks("yaml")[0], encoding="utf-8")
        running.manage("apply", str(folder / "shop.yaml"))
        running.start()
        yield running


@pytest.fixture(scope="module")
def key(portal: PortalProcess) -> str:
    """The agent's key."""
    return portal.manage("issue_key", "--agent", "shop/bookkeeper").strip()


@pytest.fixture(scope="module")
def token(portal: PortalProcess) -> str:
    """Hugo's token."""
    return portal.manage("issue_token", "--user", "hugo", "--scopes", "read,decide").strip()


def test_the_commands_do_what_their_comments_say(
    portal: PortalProcess, key: str, token: str, tmp_path: Path
) -> None:
    script = "\n".join(["set -eu", *blocks("sh")])
    done = subprocess.run(
        ["sh", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "URL": portal.url, "KEY": key, "TOKEN": token},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()
    conflict = json.loads(printed[6])
    assert conflict["code"] == "already_consumed"
    assert printed[:6] + printed[7:9] == [
        "304",
        "pending",
        "pending",
        "approved",
        "approved",
        "200",
        "409",
        "200",
    ]
    assert json.loads(printed[9]) == {"accepted": 1, "duplicates": 0}


def run_agent(portal: PortalProcess, key: str) -> subprocess.Popen[str]:
    """The example, at work."""
    assert NODE is not None
    return subprocess.Popen(
        [NODE, str(ROOT / "examples" / "node" / "agent.mjs")],
        env={**os.environ, "HOOKGATE_URL": portal.url, "HOOKGATE_KEY": key},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@counts.LONG  # the requests that it makes are those of tests/contract
@needs_node
@pytest.mark.parametrize(
    ("decision", "line", "status"),
    [
        ("approve", "sent 60000 to 北京办公家具", "succeeded"),
        ("reject", "Tool call bank__transfer was blocked: rejected", "blocked"),
    ],
)
def test_the_node_example_asks_people_and_does_what_they_say(
    portal: PortalProcess, key: str, token: str, decision: str, line: str, status: str
) -> None:
    hugo = httpx.Client(
        base_url=f"{portal.url}/api/v1", headers={"Authorization": f"Bearer {token}"}, trust_env=False
    )
    with run_agent(portal, key) as program:
        (waiting,) = until(
            lambda: hugo.get("/confirmations?status=pending").json()["results"],
            seconds=SECONDS,
            what="the request",
        )
        assert waiting["excerpt"] == '{"amount":60000,"to":"北京办公家具"}'
        assert hugo.post(f"/confirmations/{waiting['id']}/respond", json={"decision": decision}).is_success
        printed, complaints = program.communicate(timeout=SECONDS)
    assert (printed.splitlines()[0], complaints) == ("balance 70000", "")
    assert printed.splitlines()[1].startswith(line)
    ended = hugo.get(f"/confirmations/{waiting['id']}").json()
    assert ended["outcome"] == ("succeeded" if decision == "approve" else None)
    gina = portal.manage("issue_token", "--user", "gina").strip()
    calls = httpx.get(
        f"{portal.url}/api/v1/calls?tool=bank__transfer",
        headers={"Authorization": f"Bearer {gina}"},
        trust_env=False,
    ).json()["results"]
    assert (calls[0]["status"], calls[0]["conversation_id"]) == (status, waiting["conversation_id"])


@needs_node
def test_the_node_example_runs_nothing_without_a_portal() -> None:
    assert NODE is not None
    done = subprocess.run(
        [NODE, str(ROOT / "examples" / "node" / "agent.mjs")],
        env={**os.environ, "HOOKGATE_URL": "http://127.0.0.1:9", "HOOKGATE_KEY": "hg_x"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == [
        "Tool call bank__balance was blocked",
        "Tool call bank__transfer was blocked",
    ]


JUDGE = """
import { readFileSync } from "node:fs";
import { canonicalize, digest } from "%s";
const judge = (text) => {
  let value;
  try { value = JSON.parse(text); } catch { return { refused: "tool_args" }; }
  try { return { canonical: canonicalize(value), digest: digest(value) }; }
  catch (error) { return { refused: error.path }; }
};
const { accepted, refused } = JSON.parse(readFileSync("%s", "utf8"));
const all = [...accepted, ...refused].map((one) => [one.name, judge(one.json)]);
console.log(JSON.stringify(Object.fromEntries(all)));
"""


@needs_node
def test_the_vectors_hold_in_another_language() -> None:
    assert NODE is not None
    script = JUDGE % (ROOT / "examples" / "node" / "canonical.mjs", VECTORS)
    done = subprocess.run(
        [NODE, "--input-type=module", "-e", script],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    judged = json.loads(done.stdout)
    vectors = json.loads(VECTORS.read_text(encoding="utf-8"))
    assert len(judged) == len(vectors["accepted"]) + len(vectors["refused"]) > 20
    for vector in vectors["accepted"]:
        assert judged[vector["name"]] == {"canonical": vector["canonical"], "digest": vector["digest"]}
    # What isn't JSON has no places in it.
    unparsed = {"NaN", "infinity"}
    for vector in vectors["refused"]:
        if vector["name"] not in PARSED_AWAY:
            path = "tool_args" if vector["name"] in unparsed else vector["path"]
            assert judged[vector["name"]] == {"refused": path}, vector["name"]
