"""Cards on their way to people: the only writer of deliveries and their attempts.

1. :mod:`.deliveries`: what must be seen is written as rows, in the transaction of what caused it.
2. :mod:`.pokes` tells a worker after the commit; the sweep finds what a lost poke leaves.
3. :mod:`.claims` leases due rows, each with an attempt whose outcome is ``unknown`` until it is known.
4. :mod:`.circuits` and :mod:`.buckets` hold back what the platform would refuse or is not there to take.
5. :mod:`.dispatch` sends what is left side by side, outside any transaction.
6. :mod:`.claims` settles: sent, due again later, failed, superseded.

It may import adapters, bots, the condition of channels and the models.
"""
