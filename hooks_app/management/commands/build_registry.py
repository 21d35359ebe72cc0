"""``build_registry``: what an agent's runtimes are served, or every reason why they are served nothing."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from hookgate.registry.manifest import SURFACES

from hooks_app.management import arguments
from hooks_app.registry import heads, publishing
from portal import audit
from portal.lib import visible
from portal.lib.problems import Problem
from portal.management.base import PortalCommand


class Command(PortalCommand):
    """Print the manifest as JSON on stdout; the reasons go to stderr as ``PATH: MESSAGE [CODE]``, exit code 1.

    What matches nothing is ``warnings`` beside the manifest's members, and on stderr ``PATH: warning: MESSAGE [CODE]``.
    """

    help = "Print an agent's registry, or every reason why it can't be built."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("agent", metavar="ORG/AGENT")
        parser.add_argument("--surface", default="chat", choices=SURFACES)

    def handle(self, *args: Any, **options: Any) -> None:
        agent = arguments.find_agent(options["agent"])
        try:
            served = heads.serve(agent, options["surface"], actor=audit.SHELL)
        except Problem as problem:
            for error in problem.errors:
                self.stderr.write(f"{error.path}: {error.message} [{error.code}]")
            count = len(problem.errors)
            reasons = "1 reason" if count == 1 else f"{count} reasons"
            raise CommandError(f"The registry of {options['agent']} can't be built: {reasons}.") from problem
        warnings = heads.head(agent).warnings
        # Beside the manifest, and no part of what its digest covers.
        shown = json.loads(served.body) | ({"warnings": warnings} if warnings else {})
        self.stdout.write(visible.machine_json(json.dumps(shown, indent=2, ensure_ascii=False)))
        for warning in warnings:
            self.stderr.write(f"{warning['path']}: warning: {warning['message']} [{warning['code']}]")
        if publishing.is_dirty(agent):
            self.stderr.write(
                f"{options['agent']} has a draft that is not published; this is what is published."
            )
