"""``check_channel ORG/CHANNEL``: what works, what doesn't and what to do."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from channels_app import channels, condition
from channels_app.models import Channel
from portal.lib.clock import rfc3339
from portal.lib.crypto import DecryptionFailed
from portal.management.base import PortalCommand


class Command(PortalCommand):
    """Prints one line per thing tried; exit code 1 if the channel can't carry cards."""

    help = "Says what of a channel works, what doesn't and what to do."

    def add_arguments(self, parser: CommandParser) -> None:
        """One argument, the channel."""
        parser.add_argument("channel", metavar="ORG/CHANNEL")

    def handle(self, *args: Any, **options: Any) -> None:
        """Try what a delivery needs. Raises ``CommandError`` (exit code 1) when something doesn't work."""
        channel = self._find(options["channel"])
        if channel.config.get("transport", "webhook") == "webhook":
            self.stdout.write(f"callback_url: {channels.callback_url(channel)}")
        reason = channels.usable(channel)
        if reason:
            self.stdout.write(f"FAIL  channel: {reason}")
        working = self._try(channel)
        self._past(channel)
        if reason or not working:
            raise CommandError(f"{options['channel']} can't carry cards; see above")

    def _find(self, path: str) -> Channel:
        organization, _, slug = path.partition("/")
        try:
            found = (
                Channel.objects.select_related("app", "organization")
                .filter(organization__slug=organization, slug=slug)
                .first()
            )
        except DecryptionFailed as error:
            raise CommandError(f"{path}: {error}; check HOOKGATE_ENCRYPTION_KEYS") from error
        if found is None:
            raise CommandError(f"{path}: there is no such channel; use ORG/CHANNEL, such as acme/ops-feishu")
        return found

    def _try(self, channel: Channel) -> bool:
        found = condition.check(channel)
        if found.error and not channels.usable(channel):
            self.stdout.write(f"FAIL  configuration: {found.error}")
        for result in found.results:
            self.stdout.write(f"{'ok  ' if result.ok else 'FAIL'}  {result.name}: {result.detail}")
            if result.remedy:
                self.stdout.write(f"      to do: {result.remedy}")
        if any(result.name == "chat" and not result.ok for result in found.results):
            for chat in found.chats:
                self.stdout.write(f"      the bot is in: {chat.id}  {chat.name}")
        return found.holds

    def _past(self, channel: Channel) -> None:
        """What nobody can try from here: whether taps arrive, and how the last card fared."""
        seen = rfc3339(channel.app.last_callback_at) or "none yet; tap a test message in the chat"
        self.stdout.write(f"info  last tap received: {seen}")
        app = channel.app
        if app.outage_since is not None:
            self.stdout.write(
                f"info  platform away since {rfc3339(app.outage_since)}: {app.outage_tries} tries have failed, "
                f"the next one at {rfc3339(app.rest_until)}; cards wait for it"
            )
        if channel.last_error:
            self.stdout.write(f"info  last failure: {channel.last_error} ({rfc3339(channel.last_error_at)})")
