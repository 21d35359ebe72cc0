"""What a runtime that asks is told."""

import json
from typing import Any

import pytest
from hookgate.registry import manifest as runtime_manifest

from hooks_app.models import Agent
from hooks_app.registry import heads
from portal.lib.problems import Problem
from tests import make


def served(agent: Agent, surface: str = "chat") -> dict[str, Any]:
    """The manifest after everything that the test has changed is announced; the runtime must be able to read it."""
    make.publish(agent)
    heads.inputs_changed(agent.organization)
    document: dict[str, Any] = json.loads(heads.serve(agent, surface).body)
    runtime_manifest.parse(document)
    return document


def refused(agent: Agent) -> dict[str, str]:
    """Every reason why there is no manifest: path and code."""
    make.publish(agent)
    heads.inputs_changed(agent.organization)
    with pytest.raises(Problem) as caught:
        heads.serve(agent, "chat")
    assert (caught.value.status, caught.value.code) == (422, "registry_unbuildable")
    return {error.path: error.code for error in caught.value.errors}
