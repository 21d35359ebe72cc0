"""`make run` on a path with blanks: a port that is taken, twice in a row, without network or home, and Ctrl-C."""

import signal
import socket
import sqlite3
from pathlib import Path

import httpx
import pytest

from examples import sample
from examples.portal_process import free_port
from tests.machinery.live import until
from tests.newcomer import clone
from tests.newcomer.clone import ALONE, Make

SECONDS = 60.0
# Files that nobody else may read.
PRIVATE = ("sh", "-c", 'umask 077; exec "$@"', "sh")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone that is installed already."""
    made = clone.copy(tmp_path_factory.mktemp("newcomer"))
    clone.lend_environment(made)
    return made


def kept(tree: Path) -> dict[str, object]:
    """What must outlive a run: secrets, and the sample's rows."""
    var = tree / "var"
    secrets = {name: (var / name).read_bytes() for name in ("secret_key", "encryption_keys")}
    with sqlite3.connect(f"file:{var / 'hookgate.sqlite3'}?mode=ro", uri=True) as database:
        counts = {
            table: database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("portal_organization", "portal_user", "hooks_app_agent", "hooks_app_runtimekey")
        }
    return {**secrets, **counts}


def test_a_port_that_is_taken_is_one_line_with_the_remedy(tree: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with Make(tree, "run", f"PORT={port}") as make:
            assert make.end() != 0
            said, *rest = make.text.splitlines()
    assert said == f"Port {port} is taken. Stop what listens there, or choose another: make run PORT=8001"
    assert [line for line in rest if not line.startswith("make: ")] == []
    assert not (tree / "var").exists()


def test_a_folder_that_cannot_be_used_is_one_line_with_the_remedy(tree: Path) -> None:
    with Make(tree, "run", f"PORT={free_port()}", "HOOKGATE_VAR_DIR=README.md") as make:
        assert make.end() != 0
        said, *rest = make.text.splitlines()
    assert said.startswith("README.md can't be used: File exists. ")
    assert said.endswith("make run HOOKGATE_VAR_DIR=/another/folder")
    assert [line for line in rest if not line.startswith("make: ")] == []


def test_twice_in_a_row(tree: Path) -> None:
    """The second time without network and home, and after a first one whose last write was cut off."""
    port = f"PORT={(number := free_port())}"
    with Make(tree, "run", port) as make:
        make.reach(clone.RUNNING)
        play(f"http://127.0.0.1:{number}", tree / "var" / "portal.log")
        with Make(tree, "run", f"PORT={free_port()}") as other:
            assert other.end() != 0
            assert other.text.startswith(f"Hookgate is running from {tree / 'var'} already.")
        make.signal(signal.SIGINT)
        assert make.end(30) in (0, 130, -signal.SIGINT)
        assert_calm(make.text)
    before = kept(tree)
    (tree / "var" / "sample.json.new").write_text('{"url": ')
    with Make(tree, "run", port, prefix=(*ALONE, *PRIVATE), HOME=None) as make:
        make.reach(clone.RUNNING)
        make.signal(signal.SIGTERM)
        make.end(30)
        assert_calm(make.text)
    assert kept(tree) == before
    assert before["portal_organization"] == 1, sample.ORGANIZATION


# How each line begins that the sample agent prints in its first conversation, while Bob taps as below.
SAID = """\
reads: Today is
reads: What do laptops cost?
thinks: What do laptops cost?
reads: ["Laptop prices, November"]
thinks: About 60000.
reads: Today is
reads: Please pay for the laptops.
thinks: How much is it in all, and which order was it?
reads: 60000
reads: ["PO-1041: deposit", "PO-1042: laptops"]
thinks: A long list, let me see all of it.
reads: {"truncated": true, "characters": 6000
thinks: The deposit is small.
reads: paid 8000 for PO-1041
thinks: Now the rest.
waits for people: URL/inbox/
reads: paid 60000 for PO-1042
thinks: Who ordered it?
reads: Tool hr__employee_find failed: LookupError: no employee is called nobody
thinks: Print a badge for the visitor.
waits for people: URL/inbox/
reads: badge for Min printed
thinks: I could also just run a shell.
reads: Tool call shell was blocked by unlisted_tools: no connector and no tools entry names shell
thinks: The account is no longer needed.
waits for people: URL/inbox/
reads: Tool call hr__employee_delete was blocked by approval_gate: rejected by bob: E-7 still works here
thinks: All done.
plan orders: succeeded
plan prices: succeeded
plan count: succeeded
"""


def play(url: str, log: Path) -> None:
    """Be Bob in the sandbox, as the banner says, until the agent's first conversation is over."""
    with httpx.Client(base_url=f"{url}/sandbox/sandbox-control/", trust_env=False) as sandbox:
        tap(sandbox, "PO-1042", "Approve")
        tap(sandbox, "hr__badge_print", "Approve")
        tap(sandbox, "hr__employee_delete", "Reject", reason="E-7 still works here")
    until(lambda: "agent plan count: " in log.read_text(), seconds=SECONDS, what="the end of the plan")
    said = [line for line in log.read_text().splitlines() if line.startswith("agent ")]
    wanted = [f"agent {line}" for line in SAID.replace("URL", url).splitlines()]
    assert [line[: len(start)] for line, start in zip(said, wanted, strict=True)] == wanted


def tap(sandbox: httpx.Client, marker: str, button: str, **form: str) -> None:
    """Press a button of the card that shows ``marker``, once it is there."""

    def find() -> str | None:
        for message in sandbox.get("messages").json()["messages"]:
            if marker in str(message["view"]) and any(one["live"] for one in message["view"]["buttons"]):
                return str(message["message_id"])
        return None

    card = until(find, seconds=SECONDS, what=f"the card of {marker}")
    order = {"message_id": card, "open_id": "ou_bob", "button": button, "form": form}
    assert sandbox.post("press", json=order).json()["card_replaced"]


def assert_calm(text: str) -> None:
    """Nothing was set up, and nothing but the welcome and make's own last line was said."""
    assert "Setting up" not in text
    assert "Traceback" not in text
    said = text.partition(clone.RUNNING)[2].splitlines()[1:]
    assert [line for line in said if line and not line.startswith("make: ")] == []
