"""Agents, their hooks, and what comes of them: registries, confirmation requests, the call log.

Reading order: models, switches, approvers, registry, confirmations, governance (who writes configuration); then what
people and runtimes see of it: config, api, admin, inbox, live. Each may import those before it.
"""
