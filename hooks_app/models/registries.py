"""Publications, revisions and who holds them."""

from typing import Any

from django.conf import settings
from django.db import models

from hooks_app.models.agents import Agent
from portal.lib import ids


class Publication(models.Model):
    """A frozen copy of an agent's draft, made when somebody published it. Never changed."""

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="publications")
    content: Any = models.JSONField()
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    author_name = models.CharField(max_length=200, blank=True)
    comment = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["-created_at"]


class RegistryRevision(models.Model):
    """One numbered registry of one agent. Written by :mod:`hooks_app.registry.heads` alone; never changed.

    ``manifest`` is the canonical document without ``state`` and ``surface``.
    """

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="revisions")
    number = models.PositiveIntegerField()
    digest = models.CharField(max_length=80)
    manifest: Any = models.JSONField()
    publication = models.ForeignKey(Publication, on_delete=models.PROTECT, related_name="revisions")
    author_name = models.CharField(max_length=200, blank=True)
    comment = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["-number"]
        indexes = [models.Index(fields=["agent", "digest"], name="revision_by_digest")]
        constraints = [models.UniqueConstraint(fields=["agent", "number"], name="revision_number_once")]


class RegistryHead(models.Model):
    """What one agent is served now, and from which inputs it was built. One row per agent.

    ``errors`` holds every reason why the registry can't be built; then nothing is served. ``warnings`` is what is wrong
    with it all the same: see :mod:`hooks_app.registry.manifest_warnings`. The row is out of date when
    ``publication`` is not ``built_publication`` or the organization's ``inputs_version`` is not the one built from.
    """

    agent = models.OneToOneField(Agent, primary_key=True, on_delete=models.CASCADE, related_name="head")
    publication = models.ForeignKey(Publication, on_delete=models.PROTECT, related_name="+")
    revision = models.ForeignKey(RegistryRevision, null=True, on_delete=models.PROTECT, related_name="+")
    built_publication = models.ForeignKey(Publication, null=True, on_delete=models.PROTECT, related_name="+")
    built_inputs_version = models.PositiveBigIntegerField(default=0)
    errors: Any = models.JSONField(default=list)
    warnings: Any = models.JSONField(default=list)


class RuntimeInstance(models.Model):
    """A runtime that has asked for an agent's registry: which revision it holds, when it last asked, its tools."""

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="runtimes")
    name = models.CharField(max_length=100)
    surface = models.CharField(max_length=16, blank=True)
    revision = models.PositiveIntegerField(null=True, blank=True)
    last_seen_at = models.DateTimeField()
    tools: Any = models.JSONField(default=list)

    class Meta:
        ordering = ["-last_seen_at"]
        constraints = [models.UniqueConstraint(fields=["agent", "name"], name="runtime_name_once_per_agent")]

    def __str__(self) -> str:
        return self.name
