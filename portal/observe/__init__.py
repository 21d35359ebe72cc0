"""What can be known of the portal from outside: log lines, metrics, and the outages that both tell of.

It may import :mod:`portal.lib` alone, so that everything else may be observed.
"""
