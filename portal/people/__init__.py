"""Accounts: the only writer of passwords, personal tokens and links to choose a password with.

It may import the models, the audit trail, what observes, and lib.
"""
