"""Addresses of the API. The long-lived ones are answered before Django is asked; see :mod:`hooks_app.live.waiting`."""

from django.urls import URLPattern, URLResolver, path, re_path

from hooks_app.api import (
    call_views,
    confirmation_views,
    documents,
    limit_views,
    message_views,
    registry_views,
    stream_views,
)

urlpatterns: list[URLPattern | URLResolver] = [
    path("agents/<str:agent>/registry", registry_views.RegistryView.as_view()),
    path("agents/<str:agent>/registry/revisions", registry_views.RevisionsView.as_view()),
    path("agents/<str:agent>/registry/revisions/<int:number>", registry_views.RevisionView.as_view()),
    path("agents/<str:agent>/events", stream_views.AgentEventsView.as_view()),
    path("agents/<str:agent>/tools", registry_views.ToolsView.as_view()),
    path("confirmations", confirmation_views.ConfirmationsView.as_view()),
    path("confirmations/<str:id>", confirmation_views.ConfirmationView.as_view()),
    path("confirmations/<str:id>/respond", confirmation_views.RespondView.as_view()),
    path("confirmations/<str:id>/consume", confirmation_views.ConsumeView.as_view()),
    path("confirmations/<str:id>/outcome", confirmation_views.OutcomeView.as_view()),
    path("confirmations/<str:id>/cancel", confirmation_views.CancelView.as_view()),
    path("calls", call_views.CallsView.as_view()),
    path("calls/<str:id>", call_views.CallView.as_view()),
    path("limits/acquire", limit_views.AcquireView.as_view()),
    path("channels/<str:slug>/messages", message_views.MessagesView.as_view()),
    path("config.schema.json", documents.configuration),
    re_path(r"^schema/?$", documents.schema, name="api-schema"),
    re_path(r"^docs/?$", documents.docs, name="api-docs"),
    re_path(r"^", documents.missing),
]
