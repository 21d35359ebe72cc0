"""The API speaks JSON, whatever a client says it would like."""

from collections.abc import Iterable

from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request


class OnlyFormat(BaseContentNegotiation):
    """Answer in the view's one format: errors are ``application/problem+json``, which few clients name."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser:
        """The view's first parser; the content type is judged where the body is read."""
        return next(iter(parsers))

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        """The view's first renderer."""
        first = next(iter(renderers))
        return first, first.media_type or "application/json"
