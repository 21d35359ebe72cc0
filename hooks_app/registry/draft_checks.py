"""What a draft would make of its agent's registry, judged before it is published. Writes nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hooks_app.models import Agent, RegistryHead
from hooks_app.registry import input_rows, manifest_warnings, manifests
from hooks_app.registry.manifest_inputs import Inputs
from hooks_app.registry.manifest_warnings import Findings
from hooks_app.registry.manifests import Built
from portal.lib.problems import FieldError


@dataclass(frozen=True)
class Judged:
    """The draft's registry, or why there would be none, and what in it matches nothing."""

    built: Built
    findings: Findings
    inputs: Inputs

    @property
    def errors(self) -> tuple[FieldError, ...]:
        """Everything that keeps the draft from being saved or published."""
        return (*self.built.errors, *self.findings.errors)


def judge(agent: Agent, content: dict[str, Any]) -> Judged:
    """``content`` is a draft as :func:`hooks_app.registry.publishing.draft` returns it; the agent is read anew."""
    stored = Agent.objects.select_related("organization").get(pk=agent.pk)
    _version, inputs = input_rows.read(stored, content)
    return Judged(manifests.build(inputs), manifest_warnings.find(inputs, _published(stored)), inputs)


def _published(agent: Agent) -> Mapping[str, Any] | None:
    head = RegistryHead.objects.filter(agent=agent).select_related("publication").first()
    return head.publication.content if head is not None else None
