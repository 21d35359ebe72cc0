"""The pages of the inbox. A decision is made by POST alone, and no page needs JavaScript."""

import math
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.paginator import InvalidPage, Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import get_language
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from channels_app.models import Delivery
from hooks_app import confirmations
from hooks_app.approvers import eligibility
from hooks_app.confirmations import Voter, appearance, approval_cards, turned_away
from hooks_app.inbox import effects, folding, lists, notices
from hooks_app.inbox.folding import Folded
from hooks_app.inbox.lists import Eligibility, Item
from hooks_app.models import ConfirmationRequest
from portal import access
from portal.admin import showing
from portal.lib import clock, visible
from portal.lib.problems import Problem
from portal.models import User
from portal.web import queries

PER_PAGE = 25


@require_safe
@never_cache
@queries.only()
def waiting(request: HttpRequest) -> HttpResponse:
    """What waits now."""
    user = _person(request)
    found = lists.waiting(user)
    sections = {
        "to_decide": found.to_decide,
        "voted": found.voted,
        "own": found.own,
        "others": found.others,
    }
    context: dict[str, Any] = {
        "tab": "waiting",
        "more": found.more,
        "turned_away": [_turned_away(notice) for notice in turned_away.seen_by(user)],
        "several": access.organizations(user, *access.EVERYBODY).count() > 1,
        **{name: [_line(item) for item in items] for name, items in sections.items()},
    }
    return render(request, "inbox/waiting.html", context)


@require_safe
@never_cache
@queries.only("page")
def history(request: HttpRequest) -> HttpResponse:
    """What is over, page by page; 404 for a page that there is not."""
    try:
        page = Paginator(lists.ended(_person(request)), PER_PAGE).page(request.GET.get("page", 1))
    except InvalidPage as error:
        raise Http404(str(error)) from error
    items = [
        {"row": row, "card": _outline(row), "status": appearance.status_now(row)} for row in page.object_list
    ]
    return render(request, "inbox/history.html", {"tab": "history", "page": page, "items": items})


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def request_page(request: HttpRequest, pk: UUID) -> HttpResponse:
    """One request with everything a decision needs; by POST (``decision``, ``reason``) the decision itself.

    404 for a request that the person may not see. A refused decision shows the page again with the refusal's status,
    the reason still in its field.
    """
    user = _person(request)
    row = _load(user, pk)
    if request.method != "POST":
        return _show(request, row, user)
    decision, reason = request.POST.get("decision", ""), request.POST.get("reason", "")
    try:
        row = confirmations.decide(
            request_id=row.pk,
            voter=Voter(user=user),
            decision=decision,
            reason=reason or None,
            path="inbox",
        )
    except Problem as problem:
        row = _load(user, pk)
        return _show(request, row, user, problem=problem, reason=reason)
    messages.success(request, notices.counted(row, decision))
    return redirect("inbox-request", pk=row.pk)


def _turned_away(notice: turned_away.Notice) -> dict[str, Any]:
    organization = notice.agent.organization
    return {
        "agent": visible.line(notice.agent.name or notice.agent.slug),
        "count": notice.count,
        "first": showing.at(notice.first_at, organization),
        "last": showing.at(notice.last_at, organization),
        "limit": notice.allowed,
    }


def _person(request: HttpRequest) -> User:
    # LoginRequiredMiddleware lets nobody else through.
    assert isinstance(request.user, User)
    return request.user


def _load(user: User, pk: UUID) -> ConfirmationRequest:
    return get_object_or_404(confirmations.prefetched(eligibility.visible_to(user)), pk=pk)


def _show(
    request: HttpRequest,
    row: ConfirmationRequest,
    user: User,
    *,
    problem: Problem | None = None,
    reason: str = "",
) -> HttpResponse:
    status = appearance.status_now(row)
    pending = status == ConfirmationRequest.Status.PENDING
    standing = lists.standing(row, user)
    card = _card(row)
    folded = folding.fold(card.body) if pending and "all" not in request.GET else Folded(card.body, 0)
    context = {
        "tab": "waiting" if pending else "history",
        "row": row,
        "card": card,
        "arguments": folded.text,
        "more": folded.more,
        "seconds_left": max(0, math.ceil((row.expires_at - clock.now()).total_seconds())),
        "obstacle": effects.obstacle(row, standing.lacking) if pending else "",
        "left": effects.left(row) if pending else "",
        "status": status,
        "pending": pending,
        "standing": standing,
        "why_not": _explain(row, standing.why_not),
        "why_not_approve": _explain(row, standing.refusals["approve"]),
        "refusal": _explain(row, problem),
        "reason": reason,
        "reason_required": row.policy["require_reject_reason"],
        "deliveries": _deliveries(row),
        "is_reader": access.role(user, row.organization_id) in access.READERS,
    }
    return render(request, "inbox/request.html", context, status=problem.status if problem else 200)


def _explain(row: ConfirmationRequest, problem: Problem | None) -> str:
    return notices.refusal(row, problem) if problem else ""


def _deliveries(row: ConfirmationRequest) -> list[dict[str, Any]]:
    words = dict(Delivery.Status.choices)
    shown = confirmations.represent_deliveries(row)
    return [{**delivery, "status": words[delivery["status"]]} for delivery in shown]


def _line(item: Item) -> dict[str, Any]:
    return {
        "row": item.request,
        "card": _outline(item.request),
        "standing": item.standing,
        "excerpt": approval_cards.excerpt(item.request),
        "hint": _hint(item.request, item.standing),
    }


def _hint(row: ConfirmationRequest, standing: Eligibility) -> str:
    """What keeps an approval from mattering, or why the person can't give one."""
    if standing.may_decide:
        return effects.obstacle(row, standing.lacking)
    if standing.vote is not None or standing.why_not is None:
        return ""
    return _explain(row, standing.why_not)


def _card(row: ConfirmationRequest) -> Any:
    return approval_cards.build(row, language=get_language() or "en")


def _outline(row: ConfirmationRequest) -> Any:
    return approval_cards.outline(row, language=get_language() or "en")
