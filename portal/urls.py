"""All addresses of the portal. Apps are named by ``include`` alone, so that nothing points back."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("", include("portal.web.urls")),
    path("", include("channels_app.urls")),
    path("", include("hooks_app.urls")),
]
