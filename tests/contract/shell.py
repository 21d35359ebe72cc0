"""Management commands: as processes of their own, or one after another in one process that has started already.

Most of a command's time is the start of its process, and the tests give some hundred commands.
"""

import json
import subprocess
import sys
import threading
from dataclasses import dataclass

from examples.portal_process import ROOT, PortalProcess

PROGRAM = """
import contextlib, io, json, sys
from django.core.management import execute_from_command_line
answers = sys.stdout
for line in sys.stdin:
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            execute_from_command_line(["manage.py", *json.loads(line)])
        except SystemExit as end:
            code = end.code or 0
    print(json.dumps([code, out.getvalue(), err.getvalue()]), file=answers, flush=True)
"""


@dataclass(frozen=True)
class Done:
    """What a command printed, and its exit code."""

    returncode: int
    stdout: str
    stderr: str


class Shell:
    """A process that runs the portal's commands; it starts with the first."""

    def __init__(self, portal: PortalProcess) -> None:
        self._portal = portal
        self._process: subprocess.Popen[str] | None = None
        self._one = threading.Lock()

    def run(self, *arguments: str) -> Done:
        """Run ``manage.py`` with these arguments, after all others."""
        with self._one:
            process = self._process or self._start()
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(arguments) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            assert line, f"manage.py {arguments[0]} ended the shell with {process.wait(10)}"
            return Done(*json.loads(line))

    def _start(self) -> "subprocess.Popen[str]":
        log = (self._portal.folder / "shell.log").open("ab")
        with log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM],
                cwd=ROOT,
                env={**self._portal.environment, "DJANGO_SETTINGS_MODULE": "portal.settings"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        return self._process

    def close(self) -> None:
        """End the process; the next command starts another."""
        if self._process is not None:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.close()
            self._process.wait(20)
            self._process.stdout.close()
            self._process = None


def process(portal: PortalProcess, *arguments: str) -> Done:
    """A command as people give it: a process of its own."""
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=portal.environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)
