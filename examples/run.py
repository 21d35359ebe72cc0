"""`make run`: a portal with everything in one process, the sample organization, and an agent at work in it."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

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
    """``PORT``, or 8000. Exits with one line when it is not a port or is taken."""
    given = os.environ.get("PORT") or "8000"
    if not given.isdigit() or not 0 < int(given) < 65536:
        sys.exit(f"PORT={given} is not a port; use a number from 1 to 65535.")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", int(given)))
        except OSError:
            sys.exit(f"Port {given} is taken. Stop what listens there, or choose another: make run PORT=8001")
    return int(given)


def load_sample(portal: PortalProcess) -> str:
    """Migrate, load the sample unless it is there for this address already; returns the agent's key."""
    memory = portal.folder / "sample.json"
    portal.manage("migrate", "--verbosity", "0")
    known = json.loads(memory.read_text()) if memory.exists() else {}
    try:
        portal.manage("export", "--org", sample.ORGANIZATION)
    except CommandFailed:
        known = {}
    if known.get("url") != portal.url:
        portal.manage("apply", str(sample.FILE))
    key = known.get("key") or portal.manage("issue_key", "--org", sample.ORGANIZATION).strip()
    memory.touch(mode=0o600)
    memory.write_text(json.dumps({"url": portal.url, "key": key}))
    return str(key)


def main() -> int:
    """Set up, serve, and stay until the server ends."""
    number = port()
    folder = Path(os.environ.get("HOOKGATE_VAR_DIR") or ROOT / "var")
    folder.mkdir(parents=True, exist_ok=True)
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
        portal.stop()


if __name__ == "__main__":
    sys.exit(main())
