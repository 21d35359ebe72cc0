import json

from django.db import migrations, models
from django.db.models.functions import Cast

import portal.lib.fields
from hooks_app import excerpts
from hookgate import redaction
from portal.lib import crypto

# Rows read, decrypted and written at a time; each is committed on its own, so that nothing waits for all of them.
BATCH = 50


def make_excerpts(apps, schema_editor):
    """The beginning of the arguments of every request there is, and whether any part of them is redacted.

    What no configured key can read stays without; nothing else of the upgrade depends on it.
    """
    model = apps.get_model("hooks_app", "ConfirmationRequest")
    rows = (
        model.objects.filter(excerpt=None)
        .annotate(stored=Cast("args", models.TextField()))
        .order_by("pk")
        .values_list("pk", "stored", "redact")
    )
    batch = list(rows[:BATCH])
    while batch:
        for pk, stored, redact in batch:
            try:
                args = json.loads(crypto.decrypt(stored))
            except crypto.DecryptionFailed:
                continue
            model.objects.filter(pk=pk).update(
                excerpt=excerpts.of(args, redact), is_redacted=redaction.redact(args, redact) != args
            )
        batch = list(rows.filter(pk__gt=batch[-1][0])[:BATCH])


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("hooks_app", "0005_votes_and_digests")]

    operations = [
        migrations.AddField(
            model_name="confirmationrequest",
            name="excerpt",
            field=portal.lib.fields.EncryptedJSONField(null=True),
        ),
        migrations.RunPython(make_excerpts, migrations.RunPython.noop, elidable=True),
    ]
