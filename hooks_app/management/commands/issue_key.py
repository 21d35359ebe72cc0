"""``issue_key``: a new runtime key."""

from argparse import ArgumentParser
from typing import Any

from hooks_app import keys
from hooks_app.management import arguments
from hooks_app.models.keys import KEY_SCOPES
from portal import audit
from portal.management.base import PortalCommand


class Command(PortalCommand):
    """Print a new runtime key, alone on stdout; it is never shown again."""

    help = "Make a runtime key of one agent, or of a whole organization."

    def add_arguments(self, parser: ArgumentParser) -> None:
        target = parser.add_mutually_exclusive_group(required=True)
        target.add_argument("--agent", metavar="ORG/AGENT")
        target.add_argument("--org", metavar="ORG")
        parser.add_argument("--scopes", help=f"some of {','.join(KEY_SCOPES)}; without it, all but eval")
        parser.add_argument("--expires", metavar="DAYS", type=int)

    def handle(self, *args: Any, **options: Any) -> None:
        if options["agent"] is not None:
            agent = arguments.find_agent(options["agent"])
            organization = agent.organization
        else:
            agent, organization = None, arguments.find_organization(options["org"])
        with arguments.refusals():
            _, plain = keys.issue(
                organization=organization,
                agent=agent,
                scopes=arguments.split_scopes(options["scopes"]),
                expires_at=arguments.add_days(options["expires"]),
                actor=audit.SHELL,
            )
        self.stdout.write(plain)
