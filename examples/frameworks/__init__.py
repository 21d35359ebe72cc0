"""How to govern agents of other frameworks: each file runs by itself against the sample organization.

``python -m examples.frameworks.NAME`` with ``HOOKGATE_URL`` and ``HOOKGATE_KEY``; no model is needed, a script stands
in for it. What a program of one's own takes over is the part between the two marks of each file.
"""
