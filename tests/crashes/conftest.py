"""The stage of the crash tests: the demo's, with payments that are patient enough for a worker's lease to run out."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from examples import demo
from tests.e2e.conftest import Stage, staged
from tests.soak import counts

# Seconds; a card that a killed worker had in its hands comes after 90.
PATIENCE = 900
CHANGES = {
    # Time enough for a card on a slow machine, as people must see what nobody answers.
    "timeout_seconds: 2}": "timeout_seconds: 6}",
    "timeout_seconds: 60": f"timeout_seconds: {PATIENCE}, start_by_seconds: {PATIENCE}",
    # What is asked here is not how fresh a registry is.
    "{revalidate_after_seconds: 1, max_stale_seconds: 60}": "{revalidate_after_seconds: 15, max_stale_seconds: 900}",
}
# The short form has no time for both; production has more that can die.
BACKENDS = ["embedded", "production"] if counts.SOAK else ["production"]


@pytest.fixture(scope="module", params=BACKENDS)
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The stage, once per module and way of running."""
    folder: Path = tmp_path_factory.mktemp(request.param)
    file = folder / "patient.yaml"
    text = demo.FILE.read_text(encoding="utf-8")
    for said, instead in CHANGES.items():
        assert said in text
        text = text.replace(said, instead)
    file.write_text(text, encoding="utf-8")
    with staged(request.param, folder, file=file) as built:
        yield built
