"""`make run`: a portal with everything in one process, the sample organization, and an agent at work in it."""

import errno
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

from examples import sample
from examples.portal_process import ROOT, CommandFailed, PortalProcess

BANNER = """
  Hookgate is running.

  Portal      {url}/admin/      sign in as alice (admin), password {password}
  Inbox       {url}/inbox/      or as bob (approver), charlie (member), dana (auditor), same password
  Sandbox IM  {url}/sandbox/    a stand-in for Feishu: be Bob and tap
  API         {url}/api/v1/docs/

  What to try
  1. Open the sandbox as Bob. The agent's payment of 60000 waits there; tap Approve and watch it run.
  2. Be Charlie and tap: he isn't one of the policy's approvers, and is told so.
  3. As alice, switch Acme to read-only in the portal: the next payment does not run, approved or not.
  4. As dana, read what happened: calls, decisions, audit trail.

  Ctrl-C stops it. What it keeps is in {folder}
"""


def port() -> int:
    """``PORT``, or 8000. Exits with one line when it is not a port, is taken, or is not for us."""
    given = os.environ.get("PORT") or "8000"
    if not given.isdigit() or not 0 < int(given) < 65536:
        sys.exit(f"PORT={given} is not a port; use a number from 1 to 65535.")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", int(given)))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                sys.exit(
                    f"Port {given} is taken. Stop what listens there, or choose another: make run PORT=8001"
                )
            sys.exit(f"Port {given} can't be used ({error.strerror}). Choose another: make run PORT=8001")
    return int(given)


def occupy(folder: Path) -> IO[Any]:
    """Make ``folder`` and hold its lock while the returned file is open; the system drops the lock of a dead process.

    Exits with one line when it can't be used: not ours (root ran here before, say), or a portal runs from it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in (folder, *folder.iterdir()):
            if not os.access(path, os.R_OK | os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        lock = (folder / "run.lock").open("a")
    except OSError as error:
        sys.exit(
            f"{error.filename} can't be used: {error.strerror}. Hand it to this account, or keep the data elsewhere:"
            " make run HOOKGATE_VAR_DIR=/another/folder"
        )
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.exit(
            f"Hookgate is running from {folder} already. Stop it, or keep a second one apart:"
            " make run PORT=8001 HOOKGATE_VAR_DIR=/another/folder"
        )
    return lock


def remembered(memory: Path) -> dict[str, str]:
    """What an earlier run left: the address that the sample is loaded for, and the agent's key."""
    try:
        known = json.loads(memory.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def remember(memory: Path, known: dict[str, str]) -> None:
    """Keep it for the next run, whole or not at all; nobody else may read the key."""
    new = memory.with_suffix(".new")
    new.unlink(missing_ok=True)
    new.touch(mode=0o600)
    new.write_text(json.dumps(known))
    new.replace(memory)


def load_sample(portal: PortalProcess) -> str:
    """Migrate, load the sample unless it is there for this address already; returns the agent's key."""
    memory = portal.folder / "sample.json"
    portal.manage("migrate", "--verbosity", "0")
    known = remembered(memory)
    try:
        portal.manage("export", "--org", sample.ORGANIZATION)
    except CommandFailed:
        known = {}
    if known.get("url") != portal.url:
        portal.manage("apply", str(sample.FILE), *sample.ENV)
    key = known.get("key") or portal.manage("issue_key", "--org", sample.ORGANIZATION).strip()
    remember(memory, {"url": portal.url, "key": key})
    return key


def main() -> int:
    """Serve the sample until Ctrl-C."""
    os.umask(0o077)  # the database signs people in, and the log has their names
    number = port()
    folder = Path(os.environ.get("HOOKGATE_VAR_DIR") or ROOT / "var")
    with occupy(folder):
        return serve(number, folder)


def serve(number: int, folder: Path) -> int:
    """Load the sample into ``folder``, serve at ``number`` until the server ends; returns its exit code."""
    url = f"http://127.0.0.1:{number}"
    portal = PortalProcess(
        folder,
        port=number,
        environment={
            "HOOKGATE_SANDBOX": "1",
            "HOOKGATE_CHANNEL_HOSTS": f"127.0.0.1:{number}",
            **sample.placeholders(f"{url}/sandbox/feishu"),
        },
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        key = load_sample(portal)
        portal.start()
        print(BANNER.format(url=url, password=sample.PASSWORD, folder=folder), flush=True)
        portal.environment |= {"HOOKGATE_URL": url, "HOOKGATE_KEY": key}
        server = portal.processes[0]
        portal.spawn("-m", "examples.agent")
        return server.wait()
    except (CommandFailed, TimeoutError, subprocess.TimeoutExpired) as error:
        print(f"Hookgate did not start: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    finally:
        # An impatient second Ctrl-C must not leave the server behind.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        portal.stop()
