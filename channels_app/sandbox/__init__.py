"""Simulators of IM platforms for `make run`, `make demo` and the tests.

Written from the platforms' documents, not from the portal's adapters, and importing nothing of the portal: what the
two sides agree on is the platform's protocol, not a shared mistake. See README.md for the control side.
"""
