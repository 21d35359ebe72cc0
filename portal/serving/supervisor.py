"""Several web processes behind one listening socket."""

import os
import signal
import threading
import time
from collections.abc import Callable

import structlog

from portal.observe import exposition

# Seconds before a process that died is replaced, so that one that can't start doesn't spin.
PAUSE = 1.0

log = structlog.get_logger(__name__)


class Supervisor:
    """Keeps ``count`` copies of this process running ``work`` until SIGTERM or SIGINT, which it passes on."""

    def __init__(self, count: int, work: Callable[[], None]) -> None:
        self._count = count
        self._work = work
        self._children: set[int] = set()
        self._stopping = False
        # Nobody writes to it: reading ends when the last writing end has closed, and only this process keeps one.
        self._lifeline = os.pipe()

    def run(self) -> None:
        """Start the copies, replace those that die, and return when all have ended after a signal."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        for _ in range(self._count):
            self._fork()
        while self._children:
            pid, status = os.wait()
            self._children.discard(pid)
            exposition.forget_process(pid)
            if not self._stopping:
                log.error("serve.worker_died", pid=pid, exit_code=os.waitstatus_to_exitcode(status))
                time.sleep(PAUSE)
                self._fork()

    def _fork(self) -> None:
        if self._stopping:
            return
        pid = os.fork()
        if pid:
            self._children.add(pid)
            if self._stopping:  # the signal came before the child was on the list
                os.kill(pid, signal.SIGTERM)
            return
        code = 1
        try:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            os.close(self._lifeline[1])
            threading.Thread(target=_follow, args=(self._lifeline[0],), name="lifeline", daemon=True).start()
            self._work()
            code = 0
        finally:
            os._exit(code)

    def _stop(self, number: int, frame: object) -> None:
        self._stopping = True
        for pid in self._children:
            os.kill(pid, signal.SIGTERM)


def _follow(lifeline: int) -> None:
    """End with the supervisor, however it ended: nobody else would stop this process, which holds the port."""
    os.read(lifeline, 1)
    log.error("serve.supervisor_died")
    os.kill(os.getpid(), signal.SIGTERM)
