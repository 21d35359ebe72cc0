"""Addresses of the app."""

from django.urls import path

from channels_app import views

app_name = "channels"
urlpatterns = [path("channels/<slug:organization>/<slug:slug>/callback", views.callback, name="callback")]
