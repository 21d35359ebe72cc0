"""Form fields of the governance screens."""

import json
from collections.abc import Iterable
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms.fields import InvalidJSONInput
from django.utils.translation import gettext_lazy as _
from hookgate import canonical
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
)

from channels_app.models import Channel
from hooks_app.models import Agent, ApprovalPolicy
from hooks_app.models.policies import BUILT_IN
from portal.admin.forms import Pick
from portal.models import Organization


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


class Slugs(Pick, forms.ChoiceField):
    """Base of the pick lists: ``model`` has the slugs."""

    model: Any = None
    always: dict[str, Any] = {}

    def offer(self, organizations: Iterable[Organization]) -> None:
        """The slugs of these organizations; nothing is said of where each lies."""
        rows = self.model.objects.filter(organization__in=[row.pk for row in organizations])
        slugs = sorted({*rows.values_list("slug", flat=True)} - self.always.keys())
        self.choices = [*self.empty_choice(), *self.always.items(), *((slug, slug) for slug in slugs)]

    def empty_choice(self) -> list[tuple[str, Any]]:
        """What stands first, for nothing."""
        return []

    def names(self, organization: Organization) -> set[str]:
        """The slugs that there are."""
        rows = self.model.objects.filter(organization=organization)
        return {*rows.values_list("slug", flat=True), *self.always}


class _OneSlug(Slugs):
    """One of them, or nothing."""

    nothing: Any = "–"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"required": False, "widget": UnfoldAdminSelectWidget, **kwargs})

    def empty_choice(self) -> list[tuple[str, Any]]:
        """A dash, or what holds instead."""
        return [] if self.required else [("", self.nothing)]

    def prepare_value(self, value: Any) -> Any:
        """Offer what is stored, whatever has become of it."""
        choices: list[Any] = list(self.choices)  # type: ignore[arg-type]
        if value and value not in dict(choices):
            self.choices = [*choices, (value, _("%s (there is none any more)") % value)]
        return value

    def clean(self, value: Any) -> Any:
        """Null for nothing."""
        return super().clean(value) or None


class PolicyChoice(_OneSlug):
    """An approval policy, or nothing: the next level decides."""

    model = ApprovalPolicy
    always = {BUILT_IN: _("default (built in, unless there is one of this name)")}
    nothing = _("– the next level decides –")

    def __init__(self, **kwargs: Any) -> None:
        defaults = {
            "label": _("Approval policy"),
            "help_text": _("Where none is chosen the next level decides: action, hook, agent, organization."),
        }
        super().__init__(**{**defaults, **kwargs})


class ChannelChoice(_OneSlug):
    """A channel, or nothing."""

    model = Channel


class AgentChoices(Slugs, forms.MultipleChoiceField):
    """Any agents of the organization."""

    model = Agent

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"required": False, "widget": UnfoldAdminCheckboxSelectMultipleWidget, **kwargs})

    def prepare_value(self, value: Any) -> Any:
        """Offer what is stored, whatever has become of it."""
        choices: list[Any] = list(self.choices)  # type: ignore[arg-type]
        known = dict(choices)
        for slug in value if isinstance(value, list) else ():
            if slug not in known:
                self.choices = choices = [*choices, (slug, _("%s (there is none any more)") % slug)]
        return value
