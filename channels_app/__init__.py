"""Gets a card to people and takes their tap back. Knows nothing of hooks or approvals.

Reading order: cards and adapters (protocols, no rows), models, bots, condition, outbox (cards on their way out),
channels (who may write their rows), interactions (taps on their way in). Each may import those before it.
"""
