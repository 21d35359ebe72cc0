"""Addresses of the inbox."""

from django.urls import path

from hooks_app.inbox import views

urlpatterns = [
    path("", views.waiting, name="inbox"),
    path("history/", views.history, name="inbox-history"),
    path("<uuid:pk>/", views.request_page, name="inbox-request"),
]
