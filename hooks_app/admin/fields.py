"""Form fields of the governance screens."""

import json
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms.fields import InvalidJSONInput
from django.utils.translation import gettext_lazy as _
from hookgate import canonical
from unfold.widgets import UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget


class JSONText(forms.JSONField):
    """JSON in a text area: I-JSON, as everything that runtimes are served."""

    widget = UnfoldAdminTextareaWidget(attrs={"rows": 5, "class": "hookgate-code", "spellcheck": "false"})

    def prepare_value(self, value: Any) -> Any:
        """Indented, characters as they are; nothing for null."""
        if isinstance(value, InvalidJSONInput):
            return value
        return "" if value is None else json.dumps(value, ensure_ascii=False, indent=2)

    def to_python(self, value: Any) -> Any:
        """The value; nothing for an empty text. Raises for what is no I-JSON, naming the place."""
        if self.disabled or value in self.empty_values:
            return super().to_python(value)
        try:
            return canonical.loads(value)
        except canonical.NotCanonical as error:
            where = f"{error.path}: " if error.path else ""
            raise ValidationError(f"{where}{error.message}", code="not_canonical") from error

    def bound_data(self, data: Any, initial: Any) -> Any:
        """What was sent, as it was sent when it is no I-JSON: it may be nested too deep to be read at all."""
        try:
            self.to_python(data)
        except ValidationError:
            return InvalidJSONInput(data)
        return super().bound_data(data, initial)


class Texts(forms.CharField):
    """A list of texts, one per line."""

    widget = UnfoldAdminTextareaWidget(attrs={"rows": 2})

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"required": False, "help_text": _("One per line."), **kwargs})

    def prepare_value(self, value: Any) -> Any:
        """The lines of a list."""
        return "\n".join(map(str, value)) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        """The list of lines that are not empty."""
        return [line.strip() for line in (value or "").splitlines() if line.strip()]

    def run_validators(self, value: Any) -> None:
        """Each line is a text of its own: a list hides a NUL from the validators."""
        for line in value:
            super().run_validators(line)

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Compared as lists."""
        return bool(self.to_python(data) != (initial or []))


class PolicyChoice(forms.CharField):
    """The slug of an approval policy, or nothing: the next level decides."""

    widget = UnfoldAdminTextInputWidget

    def __init__(self, **kwargs: Any) -> None:
        defaults = {
            "label": _("Approval policy"),
            "required": False,
            "empty_value": None,
            "help_text": _(
                "Slug of a policy. Empty: the next level decides (action, hook, agent, organization)."
            ),
        }
        super().__init__(**{**defaults, **kwargs})
