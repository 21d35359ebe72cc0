"""``issue_token``: a new personal token."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from hooks_app.management import arguments
from portal import audit
from portal.management.base import PortalCommand
from portal.models import User
from portal.models.tokens import TOKEN_SCOPES
from portal.people import tokens


class Command(PortalCommand):
    """Print a new token of a person, alone on stdout; it is never shown again."""

    help = "Make a personal token."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", required=True, metavar="USER")
        parser.add_argument("--scopes", help=f"some of {','.join(TOKEN_SCOPES)}; without it, read")
        parser.add_argument("--expires", metavar="DAYS", type=int)

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=User.normalize_username(options["user"])).first()
        if user is None:
            raise CommandError(f"There is no user {options['user']!r}.")
        with arguments.refusals():
            _, plain = tokens.issue(
                user=user,
                scopes=arguments.split_scopes(options["scopes"]),
                expires_at=arguments.add_days(options["expires"]),
                actor=audit.SHELL,
            )
        self.stdout.write(plain)
