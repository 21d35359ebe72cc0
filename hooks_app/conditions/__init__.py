"""What the portal knows of a condition: its parts, what it walks, and whether it fits what it is asked over.

The evaluator in :mod:`hookgate.matching.matching` shows no tree, so the portal parses beside it, with a grammar after
the CEL specification (`doc/langdef.md` of google/cel-spec).
"""
