"""Counted acquisitions of rate limits."""

from typing import Any

from django.db import models

from hooks_app.models.agents import Agent


class LimitAcquisition(models.Model):
    """One answered ``/limits/acquire``: the same call asked again gets the same answer and counts once."""

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+")
    hook = models.UUIDField()
    call = models.UUIDField()
    answer: Any = models.JSONField()
    created_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["agent", "hook", "call"], name="acquisition_once_per_call")
        ]
