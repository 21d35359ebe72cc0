"""``resume``: takes a halt back."""

from argparse import ArgumentParser
from typing import Any

from hooks_app import switches
from hooks_app.governance import halting
from hooks_app.management import arguments
from portal import audit
from portal.management.base import PortalCommand


class Command(PortalCommand):
    """Let the tools of an organization or an agent run again."""

    help = "Take back the halt of an organization, or of one agent."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("target", metavar="ORG[/AGENT]")

    def handle(self, *args: Any, **options: Any) -> None:
        organization, agent = arguments.find_target(options["target"])
        resumed = halting.resume(organization=organization, agent=agent, actor=audit.SHELL)
        self.stdout.write(
            f"{options['target']} is resumed." if resumed else f"{options['target']} was not halted."
        )
        if agent is not None and switches.is_halted(organization):
            self.stderr.write(f"Its organization {organization.slug} is still halted.")
