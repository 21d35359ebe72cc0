"""Who may decide, and how many it takes: scopes, seats, policies, and their words.

Judged when asked, never remembered. Reads only; it may import the models and nothing else of this app.
"""
