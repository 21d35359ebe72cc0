"""All addresses of the portal. Apps are named by ``include`` alone, so that nothing points back."""

from django.contrib import admin
from django.urls import include, path

from portal import health
from portal.admin.site import site

# Here and not when Django starts: a command that serves no page needs no screens.
admin.autodiscover()

handler500 = "portal.web.failures.failed"

urlpatterns = [
    path("admin/", site.urls),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("", include("portal.web.urls")),
    path("", include("channels_app.urls")),
    path("", include("hooks_app.urls")),
]
