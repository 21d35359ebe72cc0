"""What a gate entry does, told in a sentence: which calls it asks about, and who is asked."""

import re
from collections.abc import Mapping

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from hooks_app.approvers import policies, words
from hooks_app.models import Agent, ApprovalPolicy, Declaration
from hooks_app.models.policies import BUILT_IN, Scope
from portal.lib import visible
from portal.models import Organization

Policies = Mapping[str, ApprovalPolicy]

_COMPARED = re.compile(r"args\.(\w+)\s*(>=|<=|==|!=|>|<)\s*(-?\d+(?:\.\d+)?|\"[^\"\\]*\"|'[^'\\]*')")
_SIGNS = {">=": "≥", "<=": "≤", "==": "=", "!=": "≠"}


def policies_of(organization: Organization) -> Policies:
    """The organization's policies, read once for however many sentences."""
    found = ApprovalPolicy.objects.filter(organization=organization).select_related("group")
    return {policy.slug: policy for policy in found}


def sentence(row: Declaration, known: Policies) -> str:
    """What the entry ``row`` does, for people, with the policy of ``known`` that it comes to."""
    if not row.tool_filter and not row.when:
        return _(
            "Adds no trigger by itself: it only says who is asked about calls that are asked about anyway."
        )
    text = _trigger(row)
    policy = _policy(row, known)
    return f"{text} {policy}" if policy else text


def _trigger(row: Declaration) -> str:
    condition = told(row.when) if row.when else ""
    if not row.tool_filter or row.tool_filter == "*":
        if not condition:
            return _("Asks before every tool.")
        return _("Asks before every tool, when %(condition)s.") % {"condition": condition}
    tools = visible.line(row.tool_filter)
    plain = not any(sign in row.tool_filter for sign in "*?[")
    if plain and condition:
        return _("Asks before %(tools)s, when %(condition)s.") % {"tools": tools, "condition": condition}
    if plain:
        return _("Asks before %(tools)s.") % {"tools": tools}
    if condition:
        return _("Asks before each tool that fits %(tools)s, when %(condition)s.") % {
            "tools": tools,
            "condition": condition,
        }
    return _("Asks before each tool that fits %(tools)s.") % {"tools": tools}


def told(condition: str) -> str:
    """A condition as people say it, where it compares one argument with one value; else as it stands."""
    found = _COMPARED.fullmatch(condition.strip())
    if found is None:
        return visible.line(condition)
    name, sign, value = found.groups()
    number = value if value[0] in "\"'" else f"{float(value):,.10g}"
    return visible.line(f"{name} {_SIGNS.get(sign, sign)} {number}")


def _policy(row: Declaration, known: Policies) -> str:
    """Who decides, by the policy that this entry names, else the agent's, else the organization's."""
    agent: Agent = row.agent
    named = row.params.get("policy") if isinstance(row.params, dict) else None
    slug = policies.choose(None, named, agent.approval_policy, agent.organization.approval_policy)
    found = known.get(slug)
    if found is None and slug != BUILT_IN:
        return _("There is no policy %(slug)s.") % {"slug": visible.line(slug)}
    policy = found or ApprovalPolicy(slug=BUILT_IN)
    who = str(words.WHO[policy.scope])
    if policy.scope == Scope.GROUP:
        who %= {"group": policy.group.slug if policy.group else "–"}
    text = ngettext(
        "Then %(quorum)d of %(who)s decides (policy %(slug)s).",
        "Then %(quorum)d of %(who)s decide (policy %(slug)s).",
        policy.quorum,
    )
    return text % {"quorum": policy.quorum, "who": who, "slug": policy.slug}
