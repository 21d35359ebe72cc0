"""Fixtures of the tests of known failures."""

import pytest

from tests.defects import office as offices
from tests.defects.office import Office


@pytest.fixture
def office(db: None) -> Office:
    """See :class:`Office`."""
    return offices.build()
