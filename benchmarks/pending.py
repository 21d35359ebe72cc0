"""Requests that wait, written straight into the portal's database: ``python -m benchmarks.pending AGENT COUNT``.

Prints their ids as JSON. Asking for a thousand of them would take longer than what is measured.
"""

import json
import sys
from datetime import timedelta
from uuid import uuid4

import django

django.setup()

from hooks_app.approvers import policies  # noqa: E402
from hooks_app.models import Agent, ConfirmationRequest  # noqa: E402
from hooks_app.models.policies import BUILT_IN  # noqa: E402
from portal.lib import clock  # noqa: E402


def make(agent: Agent, count: int) -> list[str]:
    """So many pending requests of ``agent``, open for an hour."""
    now = clock.now()
    policy = policies.freeze(agent.organization, BUILT_IN)
    rows = [
        ConfirmationRequest(
            organization=agent.organization,
            agent=agent,
            conversation_id="bench",
            tool_call_id=uuid4().hex,
            tool_name="oa__purchase_pay",
            args={"amount": 60000},
            writes=True,
            requested_digest="sha256:0",
            args_digest="sha256:0",
            hook="approval_gate",
            registry_digest="sha256:0",
            mode="auto",
            policy=policy,
            created_at=now,
            expires_at=now + timedelta(hours=1),
        )
        for _ in range(count)
    ]
    return [str(row.pk) for row in ConfirmationRequest.objects.bulk_create(rows)]


if __name__ == "__main__":
    print(json.dumps(make(Agent.objects.get(slug=sys.argv[1]), int(sys.argv[2]))))
