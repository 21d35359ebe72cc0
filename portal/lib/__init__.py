"""What knows no row and no app: the clock, ids, crypto, encrypted fields, the one outgoing HTTP client, visible text.

It imports nothing of ours but the runtime's normal form of addresses.
"""
