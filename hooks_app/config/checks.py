"""What a schema can't say: names that refer to nothing, names given twice, settings that contradict each other.

Works on the plain document, so that a misspelled key somewhere hides no other error: whatever has the wrong type is
passed over here, and reported by the schema.
"""

from collections.abc import Iterator
from typing import Any

from hookgate import addresses

from hooks_app.config.known import Known
from portal.lib import nearest
from portal.lib.problems import FieldError

Object = dict[str, Any]


def objects(node: Object, key: str, path: str) -> Iterator[tuple[str, Object]]:
    """``(path, object)`` for each object in the list ``node[key]``."""
    for where, item in _items(node, key, path):
        if isinstance(item, dict):
            yield where, item


def check(document: Object, *, prune: bool) -> list[FieldError]:
    """Everything at fault in ``document`` that :class:`hooks_app.config.schema.Document` lets pass."""
    checker = _Checker()
    organizations = list(objects(document, "organizations", ""))
    checker.check_unique(document, "organizations", "", "slug")
    emails: dict[str, str] = {}
    for path, organization in organizations:
        known = Known.collect(organization, prune=prune)
        checker.check_people(organization, path, known, emails)
        checker.check_policies(organization, path, known)
        checker.check_connectors(organization, path, known)
        checker.check_agents(organization, path, known)
    return checker.errors


def _items(node: Object, key: str, path: str) -> Iterator[tuple[str, Any]]:
    value = node.get(key)
    if isinstance(value, list):
        start = f"{path}.{key}" if path else key
        for index, item in enumerate(value):
            yield f"{start}[{index}]", item


def _object(node: Object, key: str) -> Object:
    value = node.get(key)
    return value if isinstance(value, dict) else {}


class _Checker:
    def __init__(self) -> None:
        self.errors: list[FieldError] = []

    def fail(self, path: str, message: str, code: str = "invalid") -> None:
        self.errors.append(FieldError(path, code, message))

    def refer(self, value: Any, path: str, names: set[str], kind: str) -> None:
        """``value``, if it is a name at all, must be one of ``names``."""
        if isinstance(value, str) and value not in names:
            near = nearest.suggest(value, names)
            self.fail(
                path,
                f"there is no {kind} {value!r} here; {near or 'declare it or correct the name'}",
                "unknown",
            )

    def refer_all(self, node: Object, key: str, path: str, names: set[str], kind: str) -> None:
        """Every entry of a list of names, each once."""
        seen: set[str] = set()
        for where, value in _items(node, key, path):
            self.refer(value, where, names, kind)
            if isinstance(value, str) and value in seen:
                self.fail(where, f"{value!r} is named twice", "duplicate")
            seen.add(value) if isinstance(value, str) else None

    def check_unique(self, node: Object, key: str, path: str, *columns: str) -> None:
        """No two objects of a list have the same ``columns``."""
        seen: set[tuple[str, ...]] = set()
        for where, item in objects(node, key, path):
            name = tuple(str(item.get(column)) for column in columns)
            if all(isinstance(item.get(column), str) for column in columns) and name in seen:
                self.fail(f"{where}.{columns[0]}", f"{' '.join(name)!r} is declared twice", "duplicate")
            seen.add(name)

    def check_people(self, organization: Object, path: str, known: Known, emails: dict[str, str]) -> None:
        """Members, their identities, groups, absences and channels."""
        self.check_unique(organization, "members", path, "user")
        self.check_unique(organization, "groups", path, "slug")
        self.check_unique(organization, "absences", path, "user", "from")
        self.check_unique(organization, "channels", path, "slug")
        self._check_emails(organization, path, emails)
        for where, member in objects(organization, "members", path):
            self.check_unique(member, "identities", where, "channel", "external_id")
            for at, identity in objects(member, "identities", where):
                self.refer(identity.get("channel"), f"{at}.channel", {*known.channels, "runtime"}, "channel")
        for where, group in objects(organization, "groups", path):
            self.refer_all(group, "members", where, known.members, "member")
        for where, absence in objects(organization, "absences", path):
            self._check_absence(absence, where, known)
        for where, channel in objects(organization, "channels", path):
            if channel.get("slug") == "runtime":
                self.fail(f"{where}.slug", "runtime stands for a runtime's own user ids; use another name")

    def _check_emails(self, organization: Object, path: str, emails: dict[str, str]) -> None:
        owners: dict[str, str] = {}
        for where, member in objects(organization, "members", path):
            user, email = member.get("user"), member.get("email")
            if not isinstance(user, str) or not isinstance(email, str):
                continue
            normal = addresses.find(email) or email
            if emails.setdefault(user, normal) != normal:
                self.fail(f"{where}.email", f"differs from what another organization here says of {user}")
            if owners.setdefault(normal, user) != user:
                self.fail(f"{where}.email", f"is {owners[normal]}'s; each member has one of their own")

    def _check_absence(self, absence: Object, path: str, known: Known) -> None:
        for key in ("user", "substitute"):
            self.refer(absence.get(key), f"{path}.{key}", known.members, "member")
        if isinstance(absence.get("user"), str) and absence.get("user") == absence.get("substitute"):
            self.fail(f"{path}.substitute", "must be somebody else")
        first, last = absence.get("from"), absence.get("until")
        # Both are YYYY-MM-DD when they are right, so that texts compare as days do.
        if isinstance(first, str) and isinstance(last, str) and last < first:
            self.fail(f"{path}.until", "lies before `from`")

    def check_policies(self, organization: Object, path: str, known: Known) -> None:
        """The organization's own settings and its policies."""
        self.refer(organization.get("approval_policy"), f"{path}.approval_policy", known.policies, "policy")
        self._check_freshness(_object(organization, "freshness"), f"{path}.freshness", {})
        self.check_unique(organization, "approval_policies", path, "slug")
        for where, policy in objects(organization, "approval_policies", path):
            self._check_group(policy, where, known)
            for at, stage in objects(policy, "stages", where):
                self._check_group(stage, at, known)
            self._check_escalation(policy, where, known)

    def _check_group(self, node: Object, path: str, known: Known) -> None:
        group, scope = node.get("group"), node.get("scope", "approvers")
        self.refer(group, f"{path}.group", known.groups, "group")
        if scope == "group" and group is None:
            self.fail(f"{path}.group", "is required with scope: group", "missing")
        elif scope != "group" and isinstance(group, str):
            self.fail(f"{path}.group", "goes with scope: group only")

    def _check_escalation(self, policy: Object, path: str, known: Known) -> None:
        target = policy.get("escalate_to")
        if (target is None) != (policy.get("escalate_after_seconds") is None):
            missing = "escalate_to" if target is None else "escalate_after_seconds"
            self.fail(f"{path}.{missing}", "escalate_to and escalate_after_seconds go together", "missing")
        if not isinstance(target, dict):
            return
        self.refer(target.get("channel"), f"{path}.escalate_to.channel", known.channels, "channel")
        self.refer(target.get("group"), f"{path}.escalate_to.group", known.groups, "group")
        if (target.get("channel") is None) == (target.get("group") is None):
            self.fail(f"{path}.escalate_to", "names either a channel or a group")

    def _check_freshness(self, freshness: Object, path: str, inherited: Object) -> None:
        defaults = {"revalidate_after_seconds": 15, "max_stale_seconds": 300}
        again, stale = (
            next((node[key] for node in (freshness, inherited) if node.get(key) is not None), default)
            for key, default in defaults.items()
        )
        if isinstance(again, int) and isinstance(stale, int) and again > stale:
            self.fail(
                f"{path}.revalidate_after_seconds",
                f"must be at most max_stale_seconds, which is {stale} here",
            )

    def check_connectors(self, organization: Object, path: str, known: Known) -> None:
        """Connectors and their actions."""
        self.check_unique(organization, "connectors", path, "slug")
        for where, connector in objects(organization, "connectors", path):
            self.check_unique(connector, "actions", where, "name")
            for at, action in objects(connector, "actions", where):
                self.refer(action.get("policy"), f"{at}.policy", known.policies, "policy")

    def check_agents(self, organization: Object, path: str, known: Known) -> None:
        """Agents and what they name."""
        self.check_unique(organization, "agents", path, "slug")
        for where, agent in objects(organization, "agents", path):
            self.refer(agent.get("owner"), f"{where}.owner", known.members, "member")
            self.refer(agent.get("approval_policy"), f"{where}.approval_policy", known.policies, "policy")
            self.refer_all(agent, "approval_channels", where, known.channels, "channel")
            self.refer_all(agent, "fallback_channels", where, known.channels, "channel")
            self.refer_all(agent, "may_delegate_to", where, known.agents, "agent")
            self.check_unique(agent, "tools", where, "name")
            for at, tool in objects(agent, "tools", where):
                self.refer(tool.get("policy"), f"{at}.policy", known.policies, "policy")
            if "freshness" in agent:
                inherited = _object(organization, "freshness")
                self._check_freshness(_object(agent, "freshness"), f"{where}.freshness", inherited)
            if agent.get("hooks") is not None and agent.get("model_config_json") is not None:
                self.fail(f"{where}.model_config_json", "stands in place of hooks; write one of them")
