"""A document as YAML that reads back as the same document."""

from typing import Any

import yaml

# The library writes this line break as it is, and reads it back as a space.
NEXT_LINE = "\x85"


class _Dumper(yaml.SafeDumper):
    """The library's, but for texts with that character: between double quotes it is escaped."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style='"' if NEXT_LINE in value else None)


_Dumper.add_representer(str, _text)


def to_yaml(document: Any) -> str:
    """The YAML text of a document of plain values, its keys in their order."""
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    return text
