"""Whom each scope names, in the words of cards, pages and the API."""

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from hooks_app.models.policies import Scope

# Who decides, by the scope of the policy.
WHO: dict[str, Promise] = {
    Scope.INITIATOR: gettext_lazy("the initiator"),
    Scope.AGENT_OWNER: gettext_lazy("the agent's owner"),
    Scope.ORG_MEMBERS: gettext_lazy("any member of the organization"),
    Scope.APPROVERS: gettext_lazy("approvers and admins"),
    Scope.GROUP: gettext_lazy("the group %(group)s"),
    Scope.CHANNEL_MEMBERS: gettext_lazy("anybody in this chat"),
}
# Why somebody else may not.
ONLY: dict[str, Promise] = {
    Scope.INITIATOR: gettext_lazy("Only the person for whom the agent acts may decide this request."),
    Scope.AGENT_OWNER: gettext_lazy("Only the agent's owner may decide this request."),
    Scope.ORG_MEMBERS: gettext_lazy("Only active members of the organization may decide this request."),
    Scope.APPROVERS: gettext_lazy("Only approvers and admins of the organization may decide this request."),
    Scope.GROUP: gettext_lazy("Only members of the policy's group may decide this request."),
    Scope.CHANNEL_MEMBERS: gettext_lazy(
        "Only members of the chat may decide this request, by tapping the card."
    ),
}
# For answers of the API, in English.
NOUNS: dict[str, str] = {
    Scope.INITIATOR: "the initiator of the call",
    Scope.AGENT_OWNER: "the owner of the agent",
    Scope.ORG_MEMBERS: "an active member of the organization",
    Scope.APPROVERS: "an approver or admin of the organization",
    Scope.GROUP: "a member of the policy's group",
    Scope.CHANNEL_MEMBERS: "a member of the chat, by tapping the card",
}
