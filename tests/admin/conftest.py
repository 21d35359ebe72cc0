"""Two tenants that must not see each other."""

import pytest

from tests.admin import tenant as tenants
from tests.admin.tenant import Tenant


@pytest.fixture
def acme(db: None) -> Tenant:
    """The one that the tests look from."""
    return tenants.build("acme")


@pytest.fixture
def initech(db: None) -> Tenant:
    """The other one."""
    return tenants.build("initech")
