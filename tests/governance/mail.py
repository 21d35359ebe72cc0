"""A real SMTP server that keeps what it gets."""

from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from email.message import Message
from typing import Any

from aiosmtpd.controller import Controller


class Mailbox:
    """Its handler. ``refuses`` turns everything away."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.refuses = False

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        """The library's name for what is called with a message."""
        if self.refuses:
            return "554 5.7.1 not today"
        self.messages.append(message_from_bytes(envelope.content))
        return "250 OK"


class _Server(Controller):
    """On a free port, which the library's own look at whether it is up must know."""

    def _trigger_server(self) -> None:
        server: Any = self.server
        self.port = server.sockets[0].getsockname()[1]
        super()._trigger_server()


@contextmanager
def delivered(settings: Any) -> Iterator[Mailbox]:
    """The portal's mail arrives in the mailbox. The server tells its port when it listens."""
    box = Mailbox()
    controller = _Server(box, hostname="127.0.0.1", port=0)
    controller.start()
    try:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_URL = "smtp://127.0.0.1"
        settings.EMAIL_HOST = "127.0.0.1"
        settings.EMAIL_PORT = controller.port
        settings.DEFAULT_FROM_EMAIL = "hookgate@portal.test"
        yield box
    finally:
        controller.stop()
