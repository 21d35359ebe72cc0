"""Organizations and who belongs to them."""

import re
from typing import Any
from zoneinfo import available_timezones

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from portal.lib import ids

SLUG_PATTERN = r"^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$"


def validate_slug(value: str) -> None:
    """A slug is 1 to 64 of ``a-z 0-9 -``, with neither end a hyphen. Raises ``ValidationError``."""
    # `$` would let a final line break through.
    if not re.fullmatch(SLUG_PATTERN, value):
        raise ValidationError(_("Use 1 to 64 lower-case letters, digits and hyphens."), code="invalid")


def validate_time_zone(value: str) -> None:
    """``value`` must name an IANA time zone. Raises ``ValidationError``."""
    if value not in available_timezones():
        raise ValidationError(_("Not an IANA time zone, such as Asia/Seoul."), code="invalid")


class Organization(models.Model):
    """A tenant. Every other row of the portal hangs on one, and nothing crosses from one to another."""

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    slug = models.CharField(max_length=64, unique=True, validators=[validate_slug])
    name = models.CharField(max_length=200)
    time_zone = models.CharField(max_length=64, default="UTC", validators=[validate_time_zone])
    read_only = models.BooleanField(default=False, help_text=_("Tools that write do not run."))
    halted = models.BooleanField(default=False, help_text=_("No tool of any agent runs."))
    halt_reason = models.CharField(max_length=500, blank=True)
    halt_until = models.DateTimeField(null=True, blank=True)
    approval_policy = models.CharField(max_length=64, default="default")
    revalidate_after_seconds = models.PositiveIntegerField(
        default=15, validators=[MinValueValidator(1), MaxValueValidator(3600)]
    )
    max_stale_seconds = models.PositiveIntegerField(
        default=300, validators=[MinValueValidator(15), MaxValueValidator(86400)]
    )
    retention_days = models.PositiveIntegerField(null=True, blank=True, validators=[MinValueValidator(1)])
    # Counts changes of what every agent's registry is built from; see hooks_app.registry.heads.
    inputs_version = models.PositiveBigIntegerField(default=1, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["slug"]

    def __str__(self) -> str:
        return self.slug


class Role(models.TextChoices):
    """What a member may do; see ``docs/architecture.md`` for the table."""

    ADMIN = "admin", _("admin")
    APPROVER = "approver", _("approver")
    AUDITOR = "auditor", _("auditor")
    MEMBER = "member", _("member")


class Membership(models.Model):
    """One person's role in one organization."""

    organization = models.ForeignKey(Organization, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=16, choices=Role.choices, default=Role.MEMBER)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["organization", "user"], name="one_membership_per_user"),
            models.CheckConstraint(condition=models.Q(role__in=Role.values), name="membership_role_known"),
        ]

    def __str__(self) -> str:
        return f"{self.user} · {self.role}"


class Invitation(models.Model):
    """Somebody who is asked to join: no member, so that whoever reads members reads none of these.

    ``name`` is the user name that was asked for; ``user`` is null where nobody has it, and the organization isn't told.
    """

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    organization = models.ForeignKey(Organization, on_delete=models.CASCADE, related_name="invitations")
    name = models.CharField(max_length=150)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        editable=False,
        on_delete=models.CASCADE,
        related_name="invitations",
    )
    # The address that the organization gives for the person; where the account has the same, links may go there.
    email = models.CharField(max_length=254, blank=True, editable=False)
    role = models.CharField(max_length=16, choices=Role.choices, default=Role.MEMBER)
    # Null: by the operator's config file. An invitation ends with the membership of who made it.
    made_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, editable=False, on_delete=models.CASCADE, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    # A declined invitation stays, so that nobody is asked again by the next apply.
    declined_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        ordering = ["-created_at"]
        constraints = [
            models.UniqueConstraint(fields=["organization", "name"], name="one_invitation_per_name"),
            models.CheckConstraint(condition=models.Q(role__in=Role.values), name="invitation_role_known"),
        ]

    def __str__(self) -> str:
        return f"{self.name} · {self.role}"


class Group(models.Model):
    """A named set of members that a policy can name as approvers."""

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    organization = models.ForeignKey(Organization, on_delete=models.CASCADE, related_name="groups")
    slug = models.CharField(max_length=64, validators=[validate_slug])
    members: Any = models.ManyToManyField(settings.AUTH_USER_MODEL, through="GroupMember", related_name="+")

    class Meta:
        ordering = ["slug"]
        constraints = [
            models.UniqueConstraint(fields=["organization", "slug"], name="group_slug_unique_in_organization")
        ]

    def __str__(self) -> str:
        return self.slug


class GroupMember(models.Model):
    """One person in one group."""

    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["group", "user"], name="one_row_per_group_member")]


class Absence(models.Model):
    """Days on which ``substitute`` may decide in place of ``user``; both dates count, in the organization's zone."""

    organization = models.ForeignKey(Organization, on_delete=models.CASCADE, related_name="absences")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="absences")
    substitute = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    first_day = models.DateField()
    last_day = models.DateField()

    class Meta:
        ordering = ["first_day"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(last_day__gte=models.F("first_day")), name="absence_ends_after_it_begins"
            ),
            models.CheckConstraint(
                condition=~models.Q(user=models.F("substitute")), name="absence_substitute_is_someone_else"
            ),
        ]
