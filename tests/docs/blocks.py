"""The fenced blocks of README and docs."""

import re
import subprocess
from dataclasses import dataclass

from tests.docs.tables import ROOT

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One block: the page (from the root), its number on the page, its language (may be empty) and its text."""

    page: str
    number: int
    language: str
    text: str

    @property
    def name(self) -> str:
        """For the names of tests."""
        return f"{self.page}#{self.number}"


def blocks(page: str, *languages: str) -> list[Block]:
    """The blocks of a page, in order; with ``languages`` those alone."""
    found = FENCE.findall((ROOT / page).read_text(encoding="utf-8"))
    return [
        Block(page, number, language, text)
        for number, (language, text) in enumerate(found)
        if not languages or language in languages
    ]


def pages() -> list[str]:
    """README, the docs, and the runtime's README."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "README.md", "docs", "runtime"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    return sorted(name for name in names if name.endswith(".md"))
