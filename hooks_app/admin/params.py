"""Inputs for the typed parameters of a hook of the catalogue, drawn from their JSON Schema."""

from typing import Any

from django import forms
from hookgate.catalogue import CatalogueEntry
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanWidget,
)

from hooks_app.admin.fields import ChannelChoice, PolicyChoice, Texts
from hooks_app.models import Declaration

PREFIX = "param_"
Schema = dict[str, Any]


def names(entry: CatalogueEntry) -> list[str]:
    """The inputs' names, in declared order."""
    return [PREFIX + key for key in _properties(entry)]


def form_class(base: type[forms.ModelForm], entry: CatalogueEntry, row: Declaration | None) -> Any:  # type: ignore[type-arg]
    """``base`` with an input for each parameter of ``entry``, filled from ``row``."""
    stored = row.params if row is not None else {}
    properties = _properties(entry)
    definitions = _schema(entry).get("$defs", {})
    required = _schema(entry).get("required", [])
    inputs = {
        PREFIX + key: _input(key, _resolve(schema, definitions), stored, required=key in required)
        for key, schema in properties.items()
    }
    return type("ParamsForm", (base,), inputs)


def collect(form: Any, entry: CatalogueEntry) -> Schema:
    """What was filled in; an empty input means that the parameter is not declared."""
    found = {key: form.cleaned_data.get(PREFIX + key) for key in _properties(entry)}
    return {key: value for key, value in found.items() if value not in (None, "", [])}


def _schema(entry: CatalogueEntry) -> Schema:
    return entry.params_model().model_json_schema()


def _properties(entry: CatalogueEntry) -> Schema:
    found: Schema = _schema(entry).get("properties", {})
    for key, field in entry.params_model().model_fields.items():
        if field.default_factory is not None:
            # A schema has no place for a default that is made anew each time.
            found[key]["default"] = field.get_default(call_default_factory=True, validated_data={})
    return found


def _resolve(schema: Schema, definitions: Schema) -> Schema:
    """Follow a reference, and leave the null out of ``X | None``; description and default stay."""
    for option in schema.get("anyOf", []):
        if option.get("type") != "null":
            schema = {**option, **{key: schema[key] for key in ("description", "default") if key in schema}}
    if "$ref" in schema:
        schema = {**definitions[schema["$ref"].rpartition("/")[2]], **schema}
    if "$ref" in schema.get("items", {}):
        schema = {**schema, "items": definitions[schema["items"]["$ref"].rpartition("/")[2]]}
    return schema


def _input(key: str, schema: Schema, stored: Schema, *, required: bool) -> forms.Field:
    common: dict[str, Any] = {
        "label": key.replace("_", " ").capitalize(),
        "help_text": schema.get("description", ""),
        "required": required,
        "initial": stored.get(key, schema.get("default")),
    }
    if key in ("policy", "channel"):
        return (PolicyChoice if key == "policy" else ChannelChoice)(**common)
    kind = schema.get("type")
    if kind == "integer":
        limits: dict[str, Any] = {"min_value": schema.get("minimum"), "max_value": schema.get("maximum")}
        return forms.IntegerField(widget=UnfoldAdminIntegerFieldWidget, **limits, **common)
    if kind == "boolean":
        return forms.BooleanField(widget=UnfoldBooleanWidget, **{**common, "required": False})
    if kind == "array" and "enum" in schema["items"]:
        choices = [(word, word) for word in schema["items"]["enum"]]
        return forms.MultipleChoiceField(
            choices=choices, widget=UnfoldAdminCheckboxSelectMultipleWidget, **common
        )
    if kind == "array":
        return Texts(**common)
    long = schema.get("maxLength", 0) > 500
    widget = UnfoldAdminTextareaWidget(attrs={"rows": 4}) if long else UnfoldAdminTextInputWidget
    return forms.CharField(widget=widget, strip=False, **common)
