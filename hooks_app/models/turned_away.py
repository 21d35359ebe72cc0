"""Calls that could not even be asked about."""

from django.db import models

from hooks_app.models.agents import Agent


class TurnedAway(models.Model):
    """How often an agent's calls were turned away because as many requests waited as may, and since when: one row per
    agent, begun anew when none was for a day. Written by :mod:`hooks_app.confirmations.turned_away` alone."""

    agent = models.OneToOneField(
        Agent, primary_key=True, on_delete=models.CASCADE, related_name="turned_away"
    )
    count = models.PositiveBigIntegerField()
    # How many requests might wait when the last was turned away.
    allowed = models.PositiveIntegerField()
    first_at = models.DateTimeField()
    last_at = models.DateTimeField(db_index=True)
