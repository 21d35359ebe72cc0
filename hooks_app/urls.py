"""Addresses of the app."""

from django.urls import URLPattern, URLResolver, include, path

from hooks_app.api.stream_views import InboxEventsView

urlpatterns: list[URLPattern | URLResolver] = [
    path("api/v1/", include("hooks_app.api.urls")),
    # Answered before Django is asked; see hooks_app.live.waiting.
    path("inbox/events", InboxEventsView.as_view()),
    path("inbox/", include("hooks_app.inbox.urls")),
]
