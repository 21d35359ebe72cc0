"""Rows of the hooks app: agents and what governs them, requests and decisions, keys, the call log."""

from hooks_app.models.agents import Agent, AgentTool, ApprovalChannel, Declaration, FallbackChannel
from hooks_app.models.calls import ConnectorCallLog
from hooks_app.models.confirmations import ConfirmationRequest, Decision, Stage
from hooks_app.models.connectors import Action, Connector
from hooks_app.models.keys import RuntimeKey
from hooks_app.models.limits import LimitAcquisition
from hooks_app.models.policies import ApprovalPolicy
from hooks_app.models.registries import Publication, RegistryHead, RegistryRevision, RuntimeInstance
from hooks_app.models.turned_away import TurnedAway

__all__ = [
    "Action",
    "Agent",
    "AgentTool",
    "ApprovalChannel",
    "ApprovalPolicy",
    "ConfirmationRequest",
    "Connector",
    "ConnectorCallLog",
    "Decision",
    "Declaration",
    "FallbackChannel",
    "LimitAcquisition",
    "Publication",
    "RegistryHead",
    "RegistryRevision",
    "RuntimeInstance",
    "RuntimeKey",
    "Stage",
    "TurnedAway",
]
