"""Addresses of the app."""

from django.contrib.auth import views
from django.urls import URLPattern, URLResolver, path
from django.views.generic import RedirectView

from portal.observe import exposition
from portal.web import links, login

urlpatterns: list[URLPattern | URLResolver] = [
    path("", RedirectView.as_view(url="/inbox/"), name="home"),
    path("login/", login.SignIn.as_view(), name="login"),
    path("logout/", views.LogoutView.as_view(), name="logout"),
    path("password/", login.ChangePassword.as_view(), name="password_change"),
    path("account/<str:token>/", links.account_link, name="account_link"),
    path("language/", login.set_language, name="set_language"),
    path("metrics", exposition.metrics_view, name="metrics"),
]
