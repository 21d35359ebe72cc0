"""Which hooks run: tool filters, matchers and conditions, compiled; and how much work a condition would be.

It may import canonical JSON and nothing else of the package.
"""
