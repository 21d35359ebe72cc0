"""The table at the end of `make soak`: every test's figures, and a fault fails its test but still shows."""

from pathlib import Path

import pytest

from tests.soak import counts


def test_figures_of_several_tests_make_one_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "counts"
    monkeypatch.setenv(counts.VARIABLE, str(file))
    counts.record("races/votes", database="sqlite", rounds=20, faults={"stuck": 0}, approved=12, rejected=8)
    with pytest.raises(AssertionError, match="run_twice"):
        counts.record("crashes", database="production", rounds=300, faults={"lost": 0, "run_twice": 1})
    assert counts.table(file).splitlines() == [
        "test         database    rounds  must be 0            seen",
        "BAD crashes  production  300     lost 0, run twice 1",
        "races/votes  sqlite      20      stuck 0              approved 12, rejected 8",
    ]


def test_nothing_recorded_is_an_empty_table(tmp_path: Path) -> None:
    (tmp_path / "counts").touch()
    assert counts.table(tmp_path / "counts") == ""
