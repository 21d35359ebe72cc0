"""The form of a channel: one input per setting of its adapter, secrets write-only."""

from typing import Any

from django.forms import Field
from django.utils.translation import gettext_lazy as _

from channels_app import channels
from channels_app.admin import fields
from channels_app.admin.fields import PREFIX
from channels_app.models import Channel
from portal.admin.forms import ScopedForm
from portal.lib.problems import FieldError, Problem


class ChannelForm(ScopedForm):
    """What every channel has; :func:`form_class` adds the adapter's settings."""

    type: str

    class Meta:
        model = Channel
        fields = ("organization", "slug", "enabled", "language")
        labels = {"slug": _("Slug"), "enabled": _("Enabled"), "language": _("Language of cards")}

    def config(self) -> dict[str, Any]:
        """The settings as :func:`channels_app.channels.save` takes them: an empty secret keeps the stored one."""
        secrets = channels.secret_fields(self.type)
        stored = {} if self.instance._state.adding else self.instance.config
        found = {}
        for name in self.cleaned_data:
            key = name.removeprefix(PREFIX)
            value = self.cleaned_data[name]
            if not name.startswith(PREFIX) or value in (None, ""):
                if name.startswith(PREFIX) and key in secrets and stored.get(key) is not None:
                    found[key] = channels.KEEP
                continue
            found[key] = value
        return found

    def clean(self) -> dict[str, Any]:
        """Errors of ``config.KEY`` belong to that setting's input."""
        if self.problem is not None:
            self.problem = Problem(
                self.problem.status,
                self.problem.code,
                self.problem.detail,
                errors=[
                    FieldError(error.path.replace("config.", PREFIX, 1), error.code, error.message)
                    for error in self.problem.errors
                ],
            )
        return super().clean()


def form_class(type: str, channel: Channel | None) -> type[ChannelForm]:
    """The form for channels of ``type``."""
    model = channels.adapter_class(type).config_model
    stored = channel.config if channel is not None else None
    inputs: dict[str, Field] = {
        PREFIX + name: fields.build(name, info, stored=stored) for name, info in model.model_fields.items()
    }
    return _typed(type, inputs)


def _typed(kind: str, inputs: dict[str, Field]) -> type[ChannelForm]:
    made: type[ChannelForm] = type("TypedChannelForm", (ChannelForm,), {**inputs, "type": kind})
    return made
