"""Every test of this folder has the variables that the contract's example names."""

import pytest

from tests.config import documents


@pytest.fixture(autouse=True)
def _secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in documents.SECRETS.items():
        monkeypatch.setenv(name, value)
