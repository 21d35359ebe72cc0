"""The base of every view of the API."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

from hookgate import canonical
from pydantic import BaseModel
from rest_framework.exceptions import MethodNotAllowed
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from hooks_app.api import parsers, permits
from hooks_app.api.authentication import Caller, PersonCaller, RuntimeCaller
from hooks_app.api.permits import Permit
from portal.api import bodies
from portal.lib.problems import FieldError, Problem, invalid

B = TypeVar("B", bound=BaseModel)

RUNTIME_HEADER = "Hookgate-Runtime"


class Endpoint(APIView):
    """A view whose ``permits`` name, per method, who may call it. A method without a permit does not exist."""

    http_method_names = ["get", "head", "post", "put"]
    permits: ClassVar[dict[str, Permit]] = {}
    body_limit: ClassVar[int] = bodies.BODY_LIMIT
    body_depth: ClassVar[int] = canonical.MAX_DEPTH

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Identify the caller and check the permit, before anything of the request is read."""
        super().initial(request, *args, **kwargs)
        permit = self.permits.get("GET" if request.method == "HEAD" else request.method or "")
        if permit is None:
            raise MethodNotAllowed(request.method or "")
        permits.check(self.caller, permit)

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> Response:
        """Keep answers out of caches, unless the view said otherwise."""
        done = super().finalize_response(request, response, *args, **kwargs)
        done.headers.setdefault("Cache-Control", "no-store")
        return done

    @property
    def caller(self) -> Caller:
        """Who is calling."""
        caller: Caller = self.request.auth  # type: ignore[assignment]  # BearerOrSession sets nothing else
        return caller

    @property
    def runtime(self) -> RuntimeCaller:
        """The calling runtime; for methods whose permit admits nobody else."""
        assert isinstance(self.caller, RuntimeCaller)
        return self.caller

    @property
    def person(self) -> PersonCaller:
        """The calling person; for methods whose permit admits nobody else."""
        assert isinstance(self.caller, PersonCaller)
        return self.caller

    def body(self, model: type[B]) -> B:
        """The request body as ``model``. Raises 400, 413, 415."""
        return parsers.read(self.request._request, model, limit=self.body_limit, max_depth=self.body_depth)

    @contextmanager
    def unknown_first(self, check: Callable[[], None]) -> Iterator[None]:
        """A refusal in the block is told only to who passes ``check``, which raises 404 for who may not know of what is
        asked about. Verbs find that out themselves when nothing else is wrong."""
        try:
            yield
        except Problem:
            check()
            raise

    def query(self, model: type[B]) -> B:
        """The query parameters as ``model``. Raises 400."""
        return parsers.read_query(self.request._request.GET, model)

    def runtime_name(self) -> str:
        """What the caller says its process is called; empty when it doesn't. Raises 400."""
        name = self.request.headers.get(RUNTIME_HEADER, "").strip()
        if len(name) > 100 or not name.isprintable():
            raise invalid(FieldError(RUNTIME_HEADER, "invalid", "use at most 100 printable characters"))
        return name
