"""The names that a config file's references may use."""

from dataclasses import dataclass
from typing import Any, Self

from channels_app.models import Channel
from hooks_app.models import Agent, ApprovalPolicy
from hooks_app.models.policies import BUILT_IN
from portal.models import Group, Membership

# The policy that exists without being declared.


@dataclass(frozen=True)
class Known:
    """What exists in one organization once its part of the file is applied."""

    members: set[str]
    groups: set[str]
    channels: set[str]
    policies: set[str]
    agents: set[str]

    @classmethod
    def collect(cls, organization: dict[str, Any], *, prune: bool) -> Self:
        """From the file, and, unless what the file doesn't name is about to go, from the database."""
        slug = organization.get("slug")
        stored = slug if isinstance(slug, str) and not prune else None

        def names(key: str, column: str, rows: Any, stored_column: str) -> set[str]:
            items = organization.get(key)
            written = {
                item[column]
                for item in (items if isinstance(items, list) else [])
                if isinstance(item, dict) and isinstance(item.get(column), str)
            }
            if stored is None:
                return written
            return written | set(rows.filter(organization__slug=stored).values_list(stored_column, flat=True))

        return cls(
            members=names("members", "user", Membership.objects, "user__username"),
            groups=names("groups", "slug", Group.objects, "slug"),
            channels=names("channels", "slug", Channel.objects, "slug"),
            policies={BUILT_IN} | names("approval_policies", "slug", ApprovalPolicy.objects, "slug"),
            agents=names("agents", "slug", Agent.objects, "slug"),
        )
