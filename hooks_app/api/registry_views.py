"""An agent's registry, its history, and the tools that its runtimes report."""

from django.db import transaction
from django.http import HttpResponse
from django.utils.http import parse_etags
from drf_spectacular.utils import OpenApiParameter
from hookgate import canonical
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import TypedDict

from hooks_app import metrics as measures
from hooks_app.api import lookups, permits, requests
from hooks_app.api.authentication import RuntimeCaller
from hooks_app.api.endpoint import Endpoint
from hooks_app.api.openapi import describe
from hooks_app.api.permits import Permit
from hooks_app.models import Agent, RegistryHead, RegistryRevision
from hooks_app.registry import heads, manifests, runtimes
from portal.api.pagination import Page
from portal.lib import clock
from portal.lib.json_types import Moment, Object
from portal.lib.problems import FieldError, invalid, not_found
from portal.observe import metrics, outages

EVAL = "eval"
# What a runtime that doesn't say its name is recorded as.
UNNAMED = "unnamed"
CACHE_CONTROL = "private, no-cache"

_ETAG_HEADERS = (
    OpenApiParameter(
        "If-None-Match", str, OpenApiParameter.HEADER, description="The `ETag` of the manifest that is held."
    ),
    OpenApiParameter(
        "ETag",
        str,
        OpenApiParameter.HEADER,
        response=[200, 304],
        description="Changes with any byte of the manifest.",
    ),
)


class RevisionSummary(TypedDict):
    """One revision, without its manifest."""

    number: int
    created_at: Moment
    author: str
    comment: str
    digest: str


class Revision(RevisionSummary):
    """One revision with its manifest, as it is stored: without state and surface."""

    manifest: Object


class RegistryView(Endpoint):
    """Everything that an agent runs."""

    permits = {"GET": Permit(runtime="registry", person="read")}

    @describe(
        "registry_get",
        "Fetch an agent's registry",
        tag="registry",
        query=requests.RegistryQuery,
        answers_with={200: manifests.ServedManifest, 304: "The manifest that is held still holds."},
        refuses={404: "not_found", 422: "registry_unbuildable"},
        names_runtime=True,
        headers=_ETAG_HEADERS,
    )
    def get(self, request: Request, agent: str) -> HttpResponse:
        """The manifest for one surface. `surface=eval` needs the scope `eval` as well, and is logged."""
        surface = self.query(requests.RegistryQuery).surface
        if surface == EVAL and isinstance(self.caller, RuntimeCaller):
            permits.require_scope(self.caller, EVAL)
        name = self.runtime_name()
        row, head = lookups.governed(self.caller, agent)
        # A proxy that compresses weakens the tag; If-None-Match compares weakly (RFC 9110, 13.1.2).
        held = [tag.removeprefix("W/") for tag in parse_etags(request.headers.get("If-None-Match", ""))]
        if held:
            etag = heads.etag(row, surface, head)
            if "*" in held or etag in held:
                self._record(row, name, surface, _current_revision(row, head))
                metrics.count(measures.REGISTRY_ANSWERS, status="304")
                return _finish(HttpResponse(status=304, content_type="application/json"), etag)
        served = heads.serve(row, surface, actor=self.caller.actor, found=head)
        self._record(row, name, surface, served.revision)
        metrics.count(measures.REGISTRY_ANSWERS, status="200")
        return _finish(HttpResponse(served.body, content_type="application/json"), served.etag)

    def _record(self, agent: Agent, name: str, surface: str, revision: int | None) -> None:
        """Note which runtime holds what; a person who looks is no runtime."""
        if isinstance(self.caller, RuntimeCaller):
            with outages.tolerated():
                runtimes.record(agent, name or UNNAMED, surface, revision)


def _current_revision(agent: Agent, head: RegistryHead | None) -> int | None:
    revision = heads.governing(agent, head).revision
    return revision.number if revision else None


def _finish(response: HttpResponse, etag: str) -> HttpResponse:
    response["ETag"] = etag
    response["Cache-Control"] = CACHE_CONTROL
    return response


class RevisionsView(Endpoint):
    """The history of an agent's registry."""

    permits = {"GET": Permit(runtime="registry", person="read")}

    @describe(
        "revisions_list",
        "List an agent's registry revisions",
        tag="registry",
        query=requests.PageQuery,
        answers_with={200: Page[RevisionSummary]},
        refuses={404: "not_found"},
    )
    def get(self, request: Request, agent: str) -> Response:
        """Newest first, without the manifests."""
        query = self.query(requests.PageQuery)
        rows = RegistryRevision.objects.filter(agent=lookups.agent(self.caller, agent)).defer("manifest")
        if query.cursor is not None:
            # Numbers have no gaps to hide and no ties: the number itself is the place in the list.
            if not query.cursor.isascii() or not query.cursor.isdigit() or len(query.cursor) > 9:
                raise invalid(
                    FieldError("cursor", "invalid", "use the `next` of the page before, or leave it out")
                )
            rows = rows.filter(number__lt=int(query.cursor))
        found = list(rows.order_by("-number")[: query.limit + 1])
        shown = found[: query.limit]
        more = len(found) > query.limit
        page: Page[RevisionSummary] = {
            "results": [_summary(row) for row in shown],
            "next": str(shown[-1].number) if more else None,
        }
        return Response(page)


class RevisionView(Endpoint):
    """One revision."""

    permits = {"GET": Permit(runtime="registry", person="read")}

    @describe(
        "revision_get",
        "Fetch one registry revision",
        tag="registry",
        answers_with={200: Revision},
        refuses={404: "not_found"},
    )
    def get(self, request: Request, agent: str, number: int) -> Response:
        """With its manifest, as it is stored: without state and surface."""
        rows = RegistryRevision.objects.filter(agent=lookups.agent(self.caller, agent))
        found = rows.filter(number=number).first() if number < 2**31 else None
        if found is None:
            raise not_found()
        whole: Revision = {**_summary(found), "manifest": found.manifest}
        return Response(whole)


def _summary(row: RegistryRevision) -> RevisionSummary:
    return {
        "number": row.number,
        "created_at": clock.rfc3339(row.created_at),
        "author": row.author_name,
        "comment": row.comment,
        "digest": row.digest,
    }


class ToolsView(Endpoint):
    """The tools that a runtime has."""

    permits = {"PUT": Permit(runtime="tools")}
    # Input schemas nest deeper than arguments do.
    body_depth = 2 * canonical.MAX_DEPTH

    @describe(
        "tools_put",
        "Report the tools that a runtime has",
        tag="registry",
        takes=requests.ToolReport,
        answers_with={204: "The tools are kept."},
        refuses={404: "not_found"},
        names_runtime=True,
    )
    def put(self, request: Request, agent: str) -> Response:
        """Kept per `Hookgate-Runtime`, and shown to those who write filters; nothing is governed by it."""
        name = self.runtime_name()
        row = lookups.agent(self.caller, agent)
        body = self.body(requests.ToolReport)
        with transaction.atomic():
            runtimes.report_tools(row, name or UNNAMED, [tool.model_dump() for tool in body.tools])
        return Response(status=204)
