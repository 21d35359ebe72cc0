"""schemathesis with all its checks finds nothing: every answer of a running portal is the one its document promises.

It tries, per operation: the document's boundaries from inside and outside (coverage), generated good and bad requests
(fuzzing), and chains of requests along the ids in answers (stateful). The checks: no 5xx, only declared statuses,
content types, headers and bodies; bad requests refused and good ones taken; credentials really asked for; a method
that isn't there is 405 with ``Allow``; what was made can be read, and what is gone can't.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from examples.portal_process import ROOT
from tests.conformance.conftest import Stage
from tests.soak import counts

CONFIGURATION = Path(__file__).with_name("schemathesis.toml")


def run(stage: Stage, who: str, *options: str, seconds: int) -> int:
    """One run of schemathesis with the credential of ``who``: it finds nothing. Returns how many requests it made."""
    bearer = stage.credentials[who]
    done = subprocess.run(
        [
            sys.executable, "-m", "schemathesis.cli",
            "--config-file", str(CONFIGURATION),
            "run", f"{stage.portal.url}/api/v1/schema/",
            *(("--header", f"Authorization: Bearer {bearer}") if bearer else ()),
            "--no-color", *options,
        ],
        cwd=ROOT,
        env={**os.environ, **stage.rows},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-20_000:]}\n{done.stderr}"
    made = re.search(r"(\d+) generated, (\d+) passed", done.stdout)
    assert made is not None, done.stdout[-5000:]
    return int(made[1])


# Boundaries for all operations with the key that reaches most of them; the calls of people with a person's token.
SHORT = [
    ("organization", ("--phases", "coverage", "--max-examples", "2")),
    ("person", ("--phases", "fuzzing", "--max-examples", "4", "--exclude-method", "PUT")),
]


@pytest.mark.parametrize(("who", "options"), SHORT, ids=[who for who, _ in SHORT])
def test_schemathesis_finds_nothing(stage: Stage, who: str, options: tuple[str, ...]) -> None:
    assert run(stage, who, *options, seconds=900) > 50


@pytest.mark.soak
@counts.LONG
@pytest.mark.parametrize("who", ["organization", "agent", "person", "nobody"])
def test_schemathesis_finds_nothing_in_many_examples(stage: Stage, who: str) -> None:
    made = run(stage, who, "--max-examples", "200", seconds=3600)
    counts.record(f"schemathesis as {who}", rounds=made, faults={"findings": 0}, database="sqlite")
