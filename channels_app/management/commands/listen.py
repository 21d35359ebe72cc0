"""``listen``: hold the connections of channels that need no public URL."""

from typing import Any

from django.core.management.base import CommandError

from channels_app.models import Channel
from portal.management.base import PortalCommand


class Command(PortalCommand):
    """No adapter of this release holds a connection: names the channels that ask for one, and ends."""

    help = "Holds the connections of channels whose transport is not webhook."

    def handle(self, *args: Any, **options: Any) -> None:
        """Raises ``CommandError`` (exit code 1) naming each enabled channel that waits for a connection."""
        rows = Channel.objects.filter(enabled=True).select_related("organization")
        waiting = [row for row in rows if row.config.get("transport", "webhook") != "webhook"]
        if waiting:
            lines = [
                f"{row.organization.slug}/{row.slug}: transport {row.config['transport']} is not available in this "
                "release; set transport to webhook"
                for row in waiting
            ]
            raise CommandError("\n".join(lines))
        self.stdout.write(
            "No channel asks for a connection: each has the transport webhook. Nothing to hold."
        )
