"""Form fields for the typed settings of an adapter."""

from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from django import forms
from django.utils.translation import gettext_lazy as _
from pydantic import SecretStr
from pydantic.fields import FieldInfo
from unfold.widgets import (
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminPasswordWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanWidget,
)

PREFIX = "config_"
_STORED = _("A value is stored. Leave this empty to keep it.")


class Lines(forms.CharField):
    """A list of texts, one per line."""

    widget = UnfoldAdminTextareaWidget

    def prepare_value(self, value: Any) -> Any:
        """The lines of a stored list."""
        return "\n".join(map(str, value)) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        """The list of lines that are not empty."""
        return [line.strip() for line in (value or "").splitlines() if line.strip()]

    def run_validators(self, value: Any) -> None:
        """Each line is a text of its own: a list hides a NUL from the validators."""
        for line in value:
            super().run_validators(line)


def build(name: str, info: FieldInfo, *, stored: dict[str, Any] | None) -> forms.Field:
    """The input for one setting. ``stored`` is the present configuration of a channel that exists; secrets are never
    drawn from it."""
    kind = _bare(info.annotation)
    common: dict[str, Any] = {
        "label": name.replace("_", " ").capitalize(),
        "help_text": info.description or "",
        "required": info.is_required(),
    }
    if kind is SecretStr:
        return _secret(common, stored is not None and stored.get(name) is not None)
    common["initial"] = _initial(name, info, stored)
    if get_origin(kind) is Literal:
        choices = [(word, word) for word in get_args(kind)]
        return forms.ChoiceField(choices=choices, widget=UnfoldAdminSelectWidget, **common)
    if kind is bool:
        return forms.BooleanField(widget=UnfoldBooleanWidget, **{**common, "required": False})
    if kind is int:
        return forms.IntegerField(widget=UnfoldAdminIntegerFieldWidget, **common)
    if get_origin(kind) is list:
        return Lines(**{**common, "required": False, "help_text": _("One per line.")})
    return forms.CharField(widget=UnfoldAdminTextInputWidget, **common)


def _secret(common: dict[str, Any], is_stored: bool) -> forms.Field:
    widget = UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}, render_value=False)
    if is_stored:
        common = {**common, "required": False, "help_text": _STORED}
    return forms.CharField(strip=False, widget=widget, **common)


def _initial(name: str, info: FieldInfo, stored: dict[str, Any] | None) -> Any:
    if stored is not None and name in stored:
        return stored[name]
    return None if info.is_required() else info.get_default(call_default_factory=True)


def _bare(annotation: Any) -> Any:
    """The type without ``| None``."""
    if get_origin(annotation) in (Union, UnionType):
        kinds = [kind for kind in get_args(annotation) if kind is not type(None)]
        return kinds[0] if len(kinds) == 1 else str
    return annotation
