"""``halt``: the kill switch from a shell."""

from argparse import ArgumentParser
from typing import Any

from hooks_app.governance import halting
from hooks_app.management import arguments
from portal import audit
from portal.management.base import PortalCommand


class Command(PortalCommand):
    """Halt an organization or an agent: no tool runs until ``resume``, or until the given time."""

    help = "Stop every tool of an organization, or of one agent."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("target", metavar="ORG[/AGENT]")
        parser.add_argument("--reason", required=True, help="told to everybody whose calls stop")
        parser.add_argument(
            "--until", metavar="TIME", help="such as 2026-12-01T09:00:00Z; without it, until resumed"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        organization, agent = arguments.find_target(options["target"])
        until = arguments.read_time(options["until"]) if options["until"] is not None else None
        with arguments.refusals():
            halting.halt(
                organization=organization,
                agent=agent,
                reason=options["reason"],
                until=until,
                actor=audit.SHELL,
            )
        self.stdout.write(f"{options['target']} is halted{f' until {until.isoformat()}' if until else ''}.")
