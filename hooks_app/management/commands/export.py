"""``manage.py export``: the database as a config file."""

import json
from typing import Any

from django.core.management.base import CommandError, CommandParser

from hooks_app.config import export, schema, writing
from portal.management.base import PortalCommand
from portal.models import Organization


class Command(PortalCommand):
    """YAML on stdout, secrets as ``${ORG_CHANNEL_FIELD}``; what a file can't say is told on stderr."""

    help = "Print the config file (YAML) that makes this installation's organizations, without secrets."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--org", metavar="SLUG", help="only this organization")
        parser.add_argument(
            "--schema", action="store_true", help="print the JSON Schema of config files instead"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["schema"]:
            self.stdout.write(json.dumps(schema.json_schema(), indent=2, ensure_ascii=False))
            return
        organizations = Organization.objects.all()
        if options["org"]:
            organizations = organizations.filter(slug=options["org"])
            if not organizations:
                raise CommandError(f"--org: there is no organization {options['org']!r}")
        document = export.export(organizations, note=self.stderr.write)
        text = writing.to_yaml(document)
        self.stdout.write(text, ending="")
