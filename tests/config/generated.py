"""Config files by the hundred: hypothesis strategies for documents that are right."""

from typing import Any

from hypothesis import strategies as st

from tests.config import documents

PEOPLE = ["alice", "bob", "carol"]
SLUGS = st.sampled_from(["a", "b-1", "payments", "default", "zz"])
# What stands for a variable is refused outside of secrets; chance makes one now and then.
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12).map(
    lambda text: text.replace("${", "$")
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(-1e6, 1e6) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OBJECT = st.dictionaries(TEXT, JSON, max_size=3)
# As everywhere else in a document: what is no JSON Schema has tests of its own.
SCHEMA = st.fixed_dictionaries(
    {"description": TEXT}, optional={"default": JSON, "examples": st.lists(JSON), "x-own": JSON}
)


def _object(**keys: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """An object with any of the keys; those whose names end in ``_`` always."""
    required = {key.removesuffix("_"): value for key, value in keys.items() if key.endswith("_")}
    optional = {key: value for key, value in keys.items() if not key.endswith("_")}
    return st.fixed_dictionaries(required, optional=optional)


def _unique(item: st.SearchStrategy[dict[str, Any]], key: str, size: int = 3) -> st.SearchStrategy[list[Any]]:
    return st.lists(item, max_size=size, unique_by=lambda entry: entry[key])


def _some(names: list[str]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(names), max_size=3, unique=True) if names else st.just([])


def _tools(name: st.SearchStrategy[str], policies: list[str]) -> st.SearchStrategy[list[Any]]:
    return _unique(
        _object(
            name_=name,
            description=TEXT,
            writes=st.booleans(),
            requires_confirmation=st.booleans(),
            policy=st.none() | st.sampled_from(policies),
            redact=st.lists(st.sampled_from(["card", "payer.card"]), max_size=2),
            schema=st.none() | SCHEMA,
        ),
        "name",
    )


def _may_match_nothing(hook: dict[str, Any]) -> bool:
    return hook["name"] == "approval_gate" and hook.get("tool_filter") is not None


CLASS_HOOK = st.sampled_from(["session_context", "feishu_gate", "nonsense"]) | _object(
    name_=st.sampled_from(["connector_rate_limit", "notify", "approval_gate"]),
    tool_filter=st.none() | st.sampled_from(["oa__*", "["]),
    when=st.none() | st.sampled_from(["true", "args.x > 1", "nope("]),
    priority=st.none() | st.integers(0, 899),
    on_error=st.none() | st.sampled_from(["deny", "allow"]),
    timeout_seconds=st.none() | st.integers(1, 100) | st.floats(0.5, 100),
    enabled=st.booleans(),
    mode=st.sampled_from(["enforce", "observe"]),
    params=OBJECT,
).map(lambda hook: {**hook, "allow_unmatched": True} if _may_match_nothing(hook) else hook)
HANDLER = st.just({"type": "python", "target": "a.b:c"}) | OBJECT.map(
    lambda more: {**more, "type": "command", "timeout": 5}
)
EVENTS = st.dictionaries(
    st.sampled_from(["PreToolUse", "PostToolUse", "Stop"]),
    st.lists(
        _object(
            matcher=st.none() | st.sampled_from(["", "*", "a|b"]),
            hooks_=st.lists(HANDLER, min_size=1, max_size=2),
        ),
        min_size=1,
        max_size=2,
    ),
    max_size=2,
)
HOOKS = _object(class_hooks=st.lists(CLASS_HOOK, max_size=4), events=EVENTS)
CHANNEL = _object(
    slug_=st.sampled_from(["ops", "pay-desk"]),
    type_=st.just("feishu"),
    enabled=st.booleans(),
    language=st.sampled_from(["en", "ko", "zh-hans"]),
    config_=st.sampled_from(["oc_1", "oc_2", "oc_${X}"]).map(
        lambda chat: documents.FEISHU | {"chat_id": chat.replace("$", "$$")}
    ),
)
FRESHNESS = _object(revalidate_after_seconds=st.integers(1, 300), max_stale_seconds=st.integers(300, 86400))


def _policies(groups: list[str]) -> st.SearchStrategy[list[Any]]:
    scopes = st.sampled_from([{}, {"scope": "approvers"}, {"scope": "initiator"}])
    if groups:
        scopes |= st.sampled_from(groups).map(lambda group: {"scope": "group", "group": group})
    stage = st.tuples(_object(name_=st.just("first")), scopes).map(lambda two: two[0] | two[1])
    policy = _object(
        slug_=SLUGS,
        when=st.none() | st.just("args.amount > 1"),
        timeout_seconds=st.integers(1, 259200),
        forbid_self_approval=st.booleans(),
        remind_after_seconds=st.none() | st.integers(1, 100),
        stages=st.lists(stage, max_size=2),
        grants=_object(allowed=st.booleans(), max_uses=st.integers(1, 20)),
    )
    people = policy.flatmap(
        lambda made: st.sampled_from([made, {**made, "scope": "org_members", "quorum": 2}])
    )
    return _unique(people | st.tuples(policy, scopes).map(lambda two: two[0] | two[1]), "slug")


def _agent(
    people: list[str], channels: list[str], policies: list[str], agents: list[str]
) -> st.SearchStrategy[Any]:
    return _object(
        name=TEXT.filter(bool),
        enabled=st.booleans(),
        owner=st.none() | st.sampled_from(people),
        halted=st.booleans(),
        confirmation_mode=st.sampled_from(["auto", "channel_only", "inline_only"]),
        approval_channels=_some(channels),
        require_confirmation_for_all=st.booleans(),
        approval_policy=st.none() | st.sampled_from(policies),
        unlisted_tools=st.sampled_from(["allow", "confirm", "deny"]),
        tools=_tools(st.sampled_from(["calc", "x.y", "oa__b"]), policies),
        may_delegate_to=_some(agents),
        max_pending=st.integers(1, 10000),
        freshness=FRESHNESS,
        hooks=HOOKS,
    )


def _settings(people: list[str], policies: list[str]) -> st.SearchStrategy[Any]:
    days = {"user": people[0], "from": "2026-12-01", "until": "2026-12-01", "substitute": people[1]}
    return _object(
        name=TEXT.filter(bool),
        time_zone=st.sampled_from(["UTC", "Asia/Seoul"]),
        read_only=st.booleans(),
        halted=st.booleans(),
        approval_policy=st.sampled_from(policies),
        freshness=FRESHNESS,
        retention_days=st.none() | st.integers(1, 3650),
        absences=st.sampled_from([[], [days]]),
        connectors=_unique(
            _object(
                slug_=st.sampled_from(["oa", "Crm_1"]),
                actions=_tools(st.sampled_from(["*", "a", "b"]), policies),
            ),
            "slug",
        ),
    )


@st.composite
def organizations(draw: st.DrawFn, slug: str) -> dict[str, Any]:
    """One organization whose references all hold."""
    people = draw(st.lists(st.sampled_from(PEOPLE), min_size=2, max_size=3, unique=True))
    channels = draw(_unique(CHANNEL, "slug"))
    channel_names = [channel["slug"] for channel in channels]
    groups = draw(_unique(_object(slug_=SLUGS, members_=_some(people)), "slug"))
    policies = draw(_policies([group["slug"] for group in groups]))
    policy_names = ["default", *(policy["slug"] for policy in policies)]
    agents = draw(st.lists(st.sampled_from(["one", "two"]), max_size=2, unique=True))
    accounts = draw(_some(["runtime", *channel_names]))
    members: list[dict[str, Any]] = [{"user": name, "role": "approver"} for name in people]
    members[0]["identities"] = [{"channel": name, "external_id": f"id-{name}"} for name in accounts]
    if len({channel["config"]["app_id"] for channel in channels}) < len(channels):
        members[0]["identities"] = members[0]["identities"][:1]
    return {
        **draw(_settings(people, policy_names)),
        "slug": slug,
        "members": members,
        "groups": groups,
        "channels": channels,
        "approval_policies": policies,
        "agents": [
            {"slug": name, **draw(_agent(people, channel_names, policy_names, agents))} for name in agents
        ],
    }


@st.composite
def files(draw: st.DrawFn) -> dict[str, Any]:
    """A whole document."""
    slugs = draw(st.lists(st.sampled_from(["acme", "globex"]), min_size=1, max_size=2, unique=True))
    return {"apiVersion": "hookgate/v1", "organizations": [draw(organizations(slug)) for slug in slugs]}
