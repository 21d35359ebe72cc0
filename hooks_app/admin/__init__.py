"""Admin pages of the hooks app, and those of the base app that need to know of agents."""

from hooks_app.admin import (
    agents,
    calls,
    confirmations,
    connectors,
    declarations,
    keys,
    members,
    organizations,
    policies,
    registries,
)

__all__ = [
    "agents",
    "calls",
    "confirmations",
    "connectors",
    "declarations",
    "keys",
    "members",
    "organizations",
    "policies",
    "registries",
]
