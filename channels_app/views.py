"""The address that the platforms call."""

import structlog
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from channels_app import bots, interactions
from channels_app.adapters.base import Adapter, Answer, CallbackRefused, InboundRequest
from channels_app.models import Channel
from portal.lib.http import ForbiddenAddress
from portal.lib.problems import Problem, not_found
from portal.observe import metrics

MAX_BODY = 1024 * 1024

log = structlog.get_logger(__name__)


@csrf_exempt
@login_not_required
@require_http_methods(["GET", "POST"])
def callback(request: HttpRequest, organization: str, slug: str) -> HttpResponse:
    """Take one callback of a platform.

    Answers of the portal's own are problems: 404 unknown or switched-off channel, 413 over 1 MiB, 401 not authentic,
    400 not decodable, 403 for another app or tenant. Neither body nor headers are ever logged.
    """
    try:
        channel, adapter = _open(organization, slug)
        answer = _answer(channel, adapter, _inbound(request))
    except Problem as problem:
        metrics.count(metrics.REFUSALS, kind="callback", status=str(problem.status), code=problem.code)
        return JsonResponse(problem.to_json(), status=problem.status, content_type="application/problem+json")
    return HttpResponse(answer.body, status=answer.status, content_type=answer.content_type)


def _open(organization: str, slug: str) -> tuple[Channel, Adapter]:
    channel = (
        Channel.objects.select_related("app", "organization")
        .filter(organization__slug=organization, slug=slug, enabled=True)
        .first()
    )
    if channel is None:
        raise not_found()
    try:
        return channel, bots.open_adapter(channel)
    except (Problem, ForbiddenAddress) as error:
        raise not_found() from error


def _inbound(request: HttpRequest) -> InboundRequest:
    length = request.META.get("CONTENT_LENGTH") or "0"
    if not length.isascii() or not length.isdigit() or int(length) > MAX_BODY:
        raise Problem(413, "too_large", "A callback has at most 1 MiB.")
    body = request.read(MAX_BODY + 1)
    if len(body) > MAX_BODY:
        raise Problem(413, "too_large", "A callback has at most 1 MiB.")
    return InboundRequest(
        method=request.method or "",
        headers={name.lower(): value for name, value in request.headers.items()},
        query=request.GET.dict(),
        body=body,
    )


def _answer(channel: Channel, adapter: Adapter, inbound: InboundRequest) -> Answer:
    try:
        received = adapter.receive(inbound)
        return received if isinstance(received, Answer) else interactions.handle(channel, adapter, received)
    except CallbackRefused as refused:
        log.warning("callback.refused", channel=channel.slug, status=refused.status, code=refused.code)
        raise Problem(refused.status, refused.code, refused.message) from refused
