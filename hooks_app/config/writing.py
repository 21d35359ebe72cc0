"""A document as YAML that reads back as the same document."""

from typing import Any

import yaml

from portal.lib import visible


class _Dumper(yaml.SafeDumper):
    """The library's, but for texts that hide something: between double quotes, every character beyond ASCII escaped.

    That also keeps U+0085, which the library would write as it is, and read back as a space.
    """

    def write_double_quoted(self, text: str, split: bool = True) -> None:
        """As in the library, which otherwise writes what it takes for printable as it is."""
        allowed, self.allow_unicode = self.allow_unicode, self.allow_unicode and not visible.hides(text)
        super().write_double_quoted(text, split)
        self.allow_unicode = allowed


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", value, style='"' if visible.hides(value) else None
    )


_Dumper.add_representer(str, _text)


def to_yaml(document: Any) -> str:
    """The YAML text of a document of plain values, its keys in their order."""
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    return text
