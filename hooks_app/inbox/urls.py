"""Addresses of the inbox."""

from django.urls import path

from hooks_app.inbox import invitations, views

urlpatterns = [
    path("", views.waiting, name="inbox"),
    path("history/", views.history, name="inbox-history"),
    path("invitations/", invitations.invitations, name="inbox-invitations"),
    path("invitations/<uuid:pk>/accept/", invitations.accept, name="inbox-invitation-accept"),
    path("invitations/<uuid:pk>/decline/", invitations.decline, name="inbox-invitation-decline"),
    path("<uuid:pk>/", views.request_page, name="inbox-request"),
]
