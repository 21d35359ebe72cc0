"""The stage of the end-to-end tests: a whole portal, embedded and in production."""

from tests.e2e.conftest import stage

__all__ = ["stage"]
