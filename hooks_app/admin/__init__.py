"""Admin pages of the hooks app, and those of the base app that need to know of agents."""

from hooks_app.admin import (
    agents,
    calls,
    confirmations,
    connectors,
    declarations,
    groups,
    invitations,
    keys,
    members,
    organizations,
    people,
    policies,
    registries,
)

__all__ = [
    "agents",
    "calls",
    "confirmations",
    "connectors",
    "declarations",
    "groups",
    "invitations",
    "keys",
    "members",
    "organizations",
    "people",
    "policies",
    "registries",
]
