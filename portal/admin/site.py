"""The admin site: for admins and auditors of some organization, whatever Django's own permissions say."""

from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.core.paginator import InvalidPage
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseNotAllowed
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.translation import gettext_lazy as _
from unfold.sites import UnfoldAdminSite

from portal.admin import queries, reach
from portal.admin.scoping import ScopedAdmin
from portal.web.queries import check_search, single

# The groups of the sidebar, in order; each screen names its own.
SECTIONS = {
    "governance": _("Governance"),
    "channels": _("Channels"),
    "organization": _("Organization"),
    "records": _("Records"),
}


class PortalAdminSite(UnfoldAdminSite):
    """Nobody is given model permissions here: roles in organizations are all there is."""

    index_title = _("Overview")
    index_template = "admin/overview.html"

    def register(self, model_or_iterable: Any, admin_class: Any = None, **options: Any) -> None:
        """Refuse a screen whose rows, choices and queries nobody bounds. Raises ``ImproperlyConfigured``."""
        if admin_class is None or not issubclass(admin_class, ScopedAdmin):
            raise ImproperlyConfigured(f"{admin_class}: screens of this site derive from ScopedAdmin")
        super().register(model_or_iterable, admin_class, **options)

    def admin_view(self, view: Any, cacheable: bool = False) -> Any:
        """Whatever the site serves, its query is checked, once it is known who asks."""
        return super().admin_view(queries.guarded(view), cacheable)

    def autocomplete_view(self, request: HttpRequest) -> HttpResponse:
        """For fields that a screen declares alone: no other column leads to rows."""
        if request.method != "GET":
            return HttpResponseNotAllowed(["GET"])
        given = single(request.GET, ("app_label", "model_name", "field_name", "term", "page"))
        check_search("term", given.get("term", ""))
        source = (given.get("app_label"), given.get("model_name"))
        declared = {
            (screen.opts.app_label, screen.opts.model_name): screen.get_autocomplete_fields(request)
            for screen in self._registry.values()
        }
        if given.get("field_name") not in declared.get(source, ()):
            raise PermissionDenied
        answer: HttpResponse = super().autocomplete_view(request)
        return answer

    def has_permission(self, request: HttpRequest) -> bool:
        """Admins and auditors of at least one organization, and superusers."""
        found = reach.of(request)
        return bool(found.readable) or found.everything

    @method_decorator(login_not_required)
    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Everybody signs in at one place; somebody without the role is told so."""
        if request.user.is_authenticated and not self.has_permission(request):
            raise PermissionDenied
        target = request.GET.get("next", reverse("admin:index"))
        return redirect_to_login(target)

    def logout(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Signing out is the portal's own."""
        from django.contrib.auth.views import LogoutView

        return LogoutView.as_view()(request)

    def password_change(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """So is the page for one's own password."""
        return redirect("password_change")

    def search(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """A page that there is not is no reason to fall over."""
        given = single(request.GET, ("s", "page", "extended"))
        check_search("s", given.get("s", ""))
        try:
            answer: HttpResponse = super().search(request, extra_context)
        except (ValueError, InvalidPage):
            return HttpResponseBadRequest(_("There is no such page of results."))
        return answer

    def get_sidebar_list(self, request: HttpRequest) -> list[dict[str, Any]]:
        """The screens under the sections that they name, those left out that the person may not see."""
        groups = [
            {"title": title, "separator": True, "items": self._screens(request, section)}
            for section, title in SECTIONS.items()
        ]
        return [group for group in groups if group["items"]]

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """What can't wait comes first."""
        found = [
            alert
            for screen in self._registry.values()
            if screen.has_module_permission(request)
            for alert in screen.alerts(request)
        ]
        answer: HttpResponse = super().index(
            request, {**(extra_context or {}), "alerts": sorted(found, key=lambda alert: not alert.bad)}
        )
        return answer

    def _screens(self, request: HttpRequest, section: str) -> list[dict[str, Any]]:
        screens = [
            screen
            for screen in self._registry.values()
            if getattr(screen, "section", None) == section and screen.has_module_permission(request)
        ]
        return [_entry(request, screen) for screen in sorted(screens, key=lambda screen: screen.place)]


def _entry(request: HttpRequest, screen: Any) -> dict[str, Any]:
    opts = screen.opts
    link = reverse(f"admin:{opts.app_label}_{opts.model_name}_changelist")
    return {
        "title": screen.title,
        "about": screen.about,
        "icon": screen.icon,
        "link": link,
        "active": request.path.startswith(link),
        "has_permission": True,
    }


site = PortalAdminSite(name="admin")
