"""Rate limits over REST."""

from dataclasses import asdict

from rest_framework.request import Request
from rest_framework.response import Response

from hooks_app import limits
from hooks_app.api import lookups, requests
from hooks_app.api.endpoint import Endpoint
from hooks_app.api.openapi import describe
from hooks_app.api.permits import Permit


class AcquireView(Endpoint):
    """Count a call against a declared limit."""

    permits = {"POST": Permit(runtime="limits")}

    @describe(
        "limits_acquire",
        "Count a call against a declared limit",
        tag="limits",
        takes=requests.Acquisition,
        answers_with={200: limits.Verdict},
        refuses={404: "not_found", 422: "registry_unbuildable", 503: "limits_unavailable"},
    )
    def post(self, request: Request) -> Response:
        """Always 200: whether the call may go on is in the answer. A repeated `call` counts once."""
        body = self.body(requests.Acquisition)
        agent = lookups.agent(self.caller, body.agent)
        verdict = limits.acquire(
            agent=agent, hook=body.hook, connector=body.connector, user=body.user, call=body.call
        )
        return Response(asdict(verdict))
