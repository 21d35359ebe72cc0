"""``issue_link``: a link with which a person chooses a password."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from django.db import transaction

from hooks_app.management import arguments
from portal import audit
from portal.management.base import PortalCommand
from portal.models import User
from portal.people import accounts, links


class Command(PortalCommand):
    """Print a new link of a person, alone on stdout; it works once, and ends every link before it."""

    help = "Make a link with which a person chooses a password."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", required=True, metavar="USER")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["user"]).first()
        if user is None:
            raise CommandError(f"There is no user {options['user']!r}.")
        with arguments.refusals(), transaction.atomic():
            _, address = links.issue(accounts.locked(user.pk), made_by=None, actor=audit.SHELL)
        self.stdout.write(address)
