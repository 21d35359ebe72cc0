"""Addresses of the app."""

from django.contrib.auth import views
from django.urls import URLPattern, URLResolver, path
from django.views.generic import RedirectView

from portal import health, metrics

urlpatterns: list[URLPattern | URLResolver] = [
    path("", RedirectView.as_view(url="/inbox/"), name="home"),
    path("login/", views.LoginView.as_view(template_name="portal/login.html"), name="login"),
    path("logout/", views.LogoutView.as_view(), name="logout"),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", metrics.metrics, name="metrics"),
]
