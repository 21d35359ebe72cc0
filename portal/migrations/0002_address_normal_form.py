from collections import defaultdict

import portal.lib.fields
from django.core.management.base import CommandError
from django.db import migrations
from hookgate import addresses


def normalize(apps, schema_editor):
    """Store each address in its normal form. Stops, and changes nothing, where two accounts would become one person:
    those that wrote one address differently, and those of one organization."""
    User = apps.get_model("portal", "User")
    Membership = apps.get_model("portal", "Membership")
    stored = list(User.objects.exclude(email="").order_by("username").values_list("pk", "username", "email"))
    organizations = defaultdict(set)
    for user, organization in Membership.objects.values_list("user_id", "organization_id"):
        organizations[user].add(organization)
    first, collisions = {}, []
    for pk, name, email in stored:
        normal = addresses.find(email)
        if normal is None:
            continue
        other = first.setdefault(normal, (pk, name, email))
        if other[0] != pk and (other[2] != email or organizations[pk] & organizations[other[0]]):
            collisions.append(f"  {other[1]} ({other[2]!r}) and {name} ({email!r})")
    if collisions:
        raise CommandError(
            "These accounts have one e-mail address, and whoever approves is told apart by it:\n"
            + "\n".join(collisions)
            + "\nGive one of each pair another address, or none, with the release that ran until now, and run migrate"
            " again. Nothing was changed."
        )
    for pk, _, email in stored:
        normal = addresses.find(email)
        if normal is not None and normal != email:
            User.objects.filter(pk=pk).update(email=normal)


class Migration(migrations.Migration):
    dependencies = [("portal", "0001_initial")]

    operations = [
        migrations.RunPython(normalize, migrations.RunPython.noop),
        migrations.AlterField(
            model_name="user",
            name="email",
            field=portal.lib.fields.AddressField(blank=True, max_length=254, verbose_name="email address"),
        ),
    ]
