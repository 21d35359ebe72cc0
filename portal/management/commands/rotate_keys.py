"""``rotate_keys``: encrypts every secret with the first encryption key."""

from typing import Any

from django.core.management.base import CommandError

from portal import rotation
from portal.management.base import PortalCommand

SHOWN = 20


class Command(PortalCommand):
    """Put the new key in front of ``HOOKGATE_ENCRYPTION_KEYS``, run this, then take the old one away."""

    help = "Encrypt every secret with the first key of HOOKGATE_ENCRYPTION_KEYS."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            counts = rotation.rotate()
        except rotation.Unreadable as error:
            for column, key in error.rows[:SHOWN]:
                self.stderr.write(f"{column} of {key}: no key of HOOKGATE_ENCRYPTION_KEYS can read it")
            if len(error.rows) > SHOWN:
                self.stderr.write(f"… and {len(error.rows) - SHOWN} more")
            count = len(error.rows)
            raise CommandError(
                f"nothing has changed; {'1 secret' if count == 1 else f'{count} secrets'} can't be read. "
                "Put the key that they were encrypted with back into HOOKGATE_ENCRYPTION_KEYS, behind the first."
            ) from error
        for column, count in counts.items():
            self.stdout.write(f"{column}: {count}")
        self.stdout.write(f"{sum(counts.values())} secrets are encrypted with the first key.")
