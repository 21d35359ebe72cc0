"""Fills in, for accounts of before, whether anybody could ever act as them and whether the password is their own."""

from django.db import migrations
from django.db.models import F, Q


def fill(apps, schema_editor):
    User = apps.get_model("portal", "User")
    AuditEvent = apps.get_model("portal", "AuditEvent")
    PersonalToken = apps.get_model("portal", "PersonalToken")
    # Django writes a password that can't be used as "!" and random characters.
    usable = ~Q(password__startswith="!") & ~Q(password="")
    User.objects.filter(
        usable
        | Q(last_login__isnull=False)
        | Q(is_superuser=True)
        | Q(is_staff=True)
        | Q(pk__in=PersonalToken.objects.values("user"))
    ).update(first_credential_at=F("date_joined"))
    own = {}
    events = AuditEvent.objects.filter(action__in=["user.password_changed", "user.password_set"])
    for event in events.order_by("sequence").values_list("object_id", "action", "at"):
        own[event[0]] = event[2] if event[1] == "user.password_changed" else None
    for pk, since in own.items():
        if since is not None:
            User.objects.filter(usable, pk=pk).update(password_own_since=since)


class Migration(migrations.Migration):

    dependencies = [
        ('portal', '0003_account_ownership'),
    ]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
