"""The pages that everybody has: signing in, choosing a password, refusals; and the policy of all pages.

It may import accounts, what observes, and lib.
"""
