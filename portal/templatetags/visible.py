"""Template filters: texts of models and strangers, every character of them seen (:mod:`portal.lib.visible`)."""

from django import template

from portal.lib import visible

register = template.Library()


@register.filter
def line(value: object) -> str:
    """In a place of one line."""
    return visible.line(str(value))


@register.filter
def block(value: object) -> str:
    """In a place of several lines."""
    return visible.block(str(value))


@register.filter
def speech(value: object) -> str:
    """A person's own words: line breaks and tabs stay."""
    return visible.speech(str(value))
