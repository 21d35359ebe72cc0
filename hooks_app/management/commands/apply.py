"""``manage.py apply FILE``: make the database match a config file."""

import sys
from typing import Any, NoReturn

from django.core.management.base import CommandParser
from django.db import DatabaseError, IntegrityError

from hooks_app.config import apply, placeholders, reading
from hooks_app.config.errors import ConfigInvalid
from portal import audit
from portal.lib.crypto import DecryptionFailed
from portal.lib.problems import Problem
from portal.management.base import PortalCommand


class Command(PortalCommand):
    """Prints one line per object and the number of changes; errors are ``PATH: MESSAGE`` on stderr, exit 1.

    What it warns of is ``PATH: warning: MESSAGE`` on stderr, and changes no exit code.
    """

    help = "Make the database match a config file (YAML or JSON). Nothing changes if anything in it is wrong."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="FILE", help="path of the config file, or - for standard input")
        parser.add_argument("--dry-run", action="store_true", help="print the changes, and change nothing")
        parser.add_argument(
            "--prune",
            action="store_true",
            help="also remove what the file's organizations no longer name (what has history is switched off)",
        )
        parser.add_argument(
            "--allow-unbuildable",
            action="store_true",
            help="let a registry that can't be built replace one that works: the agent then runs no tool",
        )
        parser.add_argument(
            "--env",
            metavar="PREFIX",
            help="every ${NAME} of the file begins with PREFIX, such as ACME_, and is replaced in all of a channel's"
            " config; without it any but the portal's own is, in secrets and passwords alone",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            variables = placeholders.Variables(options["env"])
        except ValueError as error:
            self._fail(f"--env: {error}")
        try:
            document = reading.read_stdin() if options["file"] == "-" else reading.read_file(options["file"])
            applied = apply.apply(
                document,
                actor=audit.SHELL,
                dry_run=options["dry_run"],
                prune=options["prune"],
                allow_unbuildable=options["allow_unbuildable"],
                variables=variables,
            )
        except ConfigInvalid as invalid:
            self._fail(*(f"{error.path}: {error.message}" for error in invalid.errors))
        except DecryptionFailed as error:
            self._fail(
                f"(database): {error}; set HOOKGATE_ENCRYPTION_KEYS to the keys that it was written with"
            )
        except IntegrityError:
            self._fail("(database): it was changed at the same time; apply the file again")
        except DatabaseError as error:
            self._fail(
                f"(database): {str(error).splitlines()[0]}; if a table is missing, run `manage.py migrate`"
            )
        except Problem as problem:
            self._fail(f"(database): {problem.detail}")
        else:
            for warning in applied.warnings:
                self.stderr.write(f"{warning.path}: warning: {warning.message}")
            for change in applied.changes:
                self.stdout.write(str(change))
            self.stdout.write(f"{sum(change.counts for change in applied.changes)} changes")

    def _fail(self, *lines: str) -> NoReturn:
        for line in lines:
            self.stderr.write(line)
        sys.exit(1)
