"""An index for the cards that stand in line for one recipient."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("channels_app", "0004_app_circuit")]

    operations = [
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                fields=["recipient", "created_at"],
                condition=models.Q(("due_at__isnull", False), ("handle__isnull", True)),
                name="delivery_line",
            ),
        ),
    ]
