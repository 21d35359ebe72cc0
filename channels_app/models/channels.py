"""Apps, channels and identities."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from portal.lib import ids
from portal.lib.fields import EncryptedJSONField
from portal.models.organizations import validate_slug


class App(models.Model):
    """One bot of one platform, as one organization knows it.

    Channels whose configuration names the same bot share this row, and with it the access token, the rate buckets and
    the identities. ``key`` is what the adapter says identifies the bot (Feishu: the ``app_id``).
    """

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    organization = models.ForeignKey("portal.Organization", on_delete=models.CASCADE, related_name="apps")
    type = models.CharField(max_length=32)
    key = models.CharField(max_length=200)
    # The platform's tenant, once an authentic callback has told it; later ones must agree.
    tenant_key = models.CharField(max_length=200, blank=True)
    token = EncryptedJSONField(null=True, blank=True, editable=False)
    token_expires_at = models.DateTimeField(null=True, blank=True, editable=False)
    # Lease of the one worker that fetches a new token.
    token_lease_until = models.DateTimeField(null=True, blank=True, editable=False)
    last_callback_at = models.DateTimeField(null=True, blank=True, editable=False)
    # The platform is away: since when, how many tries in a row have failed, and when the next one is due.
    outage_since = models.DateTimeField(null=True, blank=True, editable=False)
    outage_tries = models.PositiveIntegerField(default=0, editable=False)
    rest_until = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["organization", "type", "key"], name="app_unique_in_organization")
        ]

    def __str__(self) -> str:
        return f"{self.type} · {self.key}"


class Language(models.TextChoices):
    """Languages of cards; the codes are the configuration file's."""

    ENGLISH = "en", "English"
    KOREAN = "ko", "한국어"
    CHINESE = "zh-hans", "简体中文"


class Channel(models.Model):
    """A bot in one chat, or for some people. ``config`` is what the adapter's typed configuration accepts."""

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    organization = models.ForeignKey("portal.Organization", on_delete=models.CASCADE, related_name="channels")
    app = models.ForeignKey(App, on_delete=models.PROTECT, related_name="channels")
    slug = models.CharField(max_length=64, validators=[validate_slug])
    type = models.CharField(max_length=32)
    enabled = models.BooleanField(default=True)
    language = models.CharField(max_length=8, choices=Language.choices, default=Language.ENGLISH)
    config = EncryptedJSONField()
    # When the present configuration was last seen to work: a check passed, or a card was delivered.
    worked_at = models.DateTimeField(null=True, blank=True, editable=False)
    # The last permanent failure, shown to admins until a check passes or a delivery succeeds.
    last_error = models.CharField(max_length=500, blank=True, editable=False)
    last_error_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["slug"]
        constraints = [
            models.UniqueConstraint(
                fields=["organization", "slug"], name="channel_slug_unique_in_organization"
            ),
            models.CheckConstraint(
                condition=models.Q(language__in=Language.values), name="channel_language_known"
            ),
        ]

    def __str__(self) -> str:
        return self.slug


class Identity(models.Model):
    """An account of one IM app, bound to one portal user. Without ``app`` it is a runtime's own user id."""

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    organization = models.ForeignKey(
        "portal.Organization", on_delete=models.CASCADE, related_name="identities"
    )
    app = models.ForeignKey(App, null=True, blank=True, on_delete=models.CASCADE, related_name="identities")
    external_id = models.CharField(max_length=200)
    name = models.CharField(max_length=200, blank=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="identities")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name_plural = _("identities")
        constraints = [
            models.UniqueConstraint(
                fields=["app", "external_id"],
                condition=models.Q(app__isnull=False),
                name="one_person_per_account",
            ),
            models.UniqueConstraint(
                fields=["organization", "external_id"],
                condition=models.Q(app__isnull=True),
                name="one_person_per_runtime_user",
            ),
        ]

    def __str__(self) -> str:
        return self.external_id
