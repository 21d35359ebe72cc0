"""The base of our commands: what they print hides nothing and moves no cursor."""

import sys
from typing import Any, Literal, TextIO, cast

from django.core.management.base import BaseCommand

from portal.lib import visible


class _Shown:
    """A stream that shows what a text would hide; everything else is the stream's own."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return int(self._stream.write(visible.plain(text)) or 0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def shown(stream: Any) -> TextIO:
    """``stream``, through the filter."""
    return cast(TextIO, stream if isinstance(stream, _Shown) else _Shown(stream))


class PortalCommand(BaseCommand):
    """A command whose output passes :func:`portal.lib.visible.plain`. What programs read (JSON, YAML) is escaped in
    its own way before, so that it reads back as it was.

    It starts without Django's checks of the code, which load every page: ``check``, ``migrate`` and ``serve`` ask them.
    """

    requires_system_checks: list[str] | Literal["__all__"] = []

    def __init__(self, stdout: Any = None, stderr: Any = None, **options: Any) -> None:
        super().__init__(shown(stdout or sys.stdout), shown(stderr or sys.stderr), **options)

    def execute(self, *args: Any, **options: Any) -> str | None:
        """As in Django, with the streams that the caller gave through the filter too."""
        for name in ("stdout", "stderr"):
            if options.get(name) is not None:
                options[name] = shown(options[name])
        return super().execute(*args, **options)
