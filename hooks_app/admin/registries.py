"""What was published, what it was built into, and who holds it."""

from typing import Any

from django.contrib import admin
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from hooks_app.models import Publication, RegistryRevision, RuntimeInstance
from portal.admin import showing
from portal.admin.scoping import RecordAdmin
from portal.admin.site import site


class _OfAgent(RecordAdmin):
    organization_path = "agent__organization"
    section = "records"
    list_filter: Any = (("agent", admin.RelatedOnlyFieldListFilter), "created_at")
    list_select_related = ("agent__organization",)

    @admin.display(description=_("time"), ordering="created_at")
    def time(self, row: Any) -> str:
        """In the organization's zone."""
        return showing.at(row.created_at, row.agent.organization)


@admin.register(Publication, site=site)
class PublicationAdmin(_OfAgent):
    """Frozen drafts."""

    kind = "publication"
    title = _("Publications")
    about = _("Drafts as they were published")
    place = 50
    icon = "publish"
    heavy = ("content",)
    list_display = ("time", "agent", "author_name", "comment")
    search_fields = ("agent__slug", "author_name", "comment")
    fields = ("agent", "time", "author_name", "comment", "frozen")
    readonly_fields = fields

    @admin.display(description=_("content"))
    def frozen(self, row: Publication) -> SafeString:
        """The draft as it was."""
        return showing.pretty(row.content)


@admin.register(RegistryRevision, site=site)
class RegistryRevisionAdmin(_OfAgent):
    """Numbered registries."""

    kind = "revision"
    title = _("Revisions")
    about = _("Numbered registries of agents")
    place = 40
    icon = "tag"
    heavy = ("manifest",)
    list_display = ("number", "agent", "time", "author_name", "comment", "digest")
    search_fields = ("agent__slug", "author_name", "comment", "digest")
    fields = ("number", "agent", "time", "author_name", "comment", "digest", "publication", "document")
    readonly_fields = fields

    @admin.display(description=_("manifest"))
    def document(self, row: RegistryRevision) -> SafeString:
        """Without surface and state, which are the moment's."""
        return showing.pretty(row.manifest)


@admin.register(RuntimeInstance, site=site)
class RuntimeInstanceAdmin(RecordAdmin):
    """Which runtime holds which revision."""

    kind = "runtime"
    title = _("Runtimes")
    about = _("Which runtime holds which revision")
    organization_path = "agent__organization"
    section = "records"
    place = 60
    icon = "dns"
    heavy = ("tools",)
    list_display = ("name", "agent", "surface", "revision", "seen")
    list_filter = (("agent", admin.RelatedOnlyFieldListFilter), "surface", "last_seen_at")
    search_fields = ("name", "agent__slug")
    list_select_related = ("agent__organization",)
    fields = ("name", "agent", "surface", "revision", "seen", "reported")
    readonly_fields = fields

    @admin.display(description=_("last asked"), ordering="last_seen_at")
    def seen(self, row: RuntimeInstance) -> str:
        """To the minute."""
        return showing.at(row.last_seen_at, row.agent.organization)

    @admin.display(description=_("tools"))
    def reported(self, row: RuntimeInstance) -> SafeString:
        """What it says that it can run."""
        return showing.pretty(row.tools)
