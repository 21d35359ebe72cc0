"""How the views become OpenAPI 3.1: one decorator says what a call takes and answers."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_args, get_origin

from drf_spectacular.contrib.pydantic import PydanticExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from hookgate import canonical
from pydantic import BaseModel, TypeAdapter

from hooks_app.api import fields
from hooks_app.api.endpoint import RUNTIME_HEADER
from portal.api.problems import CONTENT_TYPE
from portal.lib.problems import ProblemDocument

F = TypeVar("F", bound=Callable[..., Any])

SECURITY_SCHEMES = {
    "runtimeKey": {"type": "http", "scheme": "bearer", "description": "A runtime key, `hg_…`."},
    "personalToken": {"type": "http", "scheme": "bearer", "description": "A person's token, `hgp_…`."},
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "sessionid",
        "description": "A portal session; to write, send its CSRF token as `X-CSRFToken`.",
    },
}
EVENTS = "/api/v1/agents/{agent}/events"
# The types that answers refer to, by the name of their component; filled as the views describe themselves.
_ANSWERS: dict[str, Any] = {}
_ALWAYS = {401: "unauthenticated", 403: "scope_missing, people_only, runtime_only, csrf_failed"}
_WITH_BODY = {400: "invalid", 413: "too_large", 415: "unsupported_media_type"}


class Schema(AutoSchema):
    """Reads a view's ``permits`` for the security of each operation."""

    def get_auth(self) -> list[dict[str, list[str]]]:
        """The credentials that the operation takes; none for a public one."""
        permit = getattr(self.view, "permits", {}).get(self.method)
        if permit is None:
            return []
        kinds = ["runtimeKey"] if permit.runtime else []
        kinds += ["personalToken", "session"] if permit.person else []
        return [{kind: []} for kind in kinds]


class RequestModels(PydanticExtension):  # type: ignore[no-untyped-call]  # the library's hook
    """Describes request models by what they accept: a field with a default need not be sent."""

    priority = 1

    def map_serializer(self, auto_schema: Any, direction: str) -> Any:
        """The JSON Schema of the model; its parts become components."""
        schema = self.target.model_json_schema(
            ref_template="#/components/schemas/{model}",
            mode="validation" if direction == "request" else "serialization",
        )
        for name, part in schema.pop("$defs", {}).items():
            auto_schema.registry.register_on_missing(_component(name, part))
        return schema


def _component(name: str, schema: dict[str, Any]) -> ResolvedComponent:
    component: ResolvedComponent = ResolvedComponent(  # type: ignore[no-untyped-call]
        name=name, type=ResolvedComponent.SCHEMA, object=name, schema=schema
    )
    return component


def describe(
    name: str,
    summary: str,
    *,
    tag: str,
    answers_with: Mapping[int, Any],
    takes: type[BaseModel] | None = None,
    query: type[BaseModel] | None = None,
    refuses: Mapping[int, str] | None = None,
    names_runtime: bool = False,
    headers: tuple[OpenApiParameter, ...] = (),
    public: bool = False,
) -> Callable[[F], F]:
    """Describe one method of an endpoint.

    ``answers_with`` maps a status to the type that the view answers with, or to the text of an answer without body;
    ``refuses`` maps a status to the codes beyond those that every call has.
    """
    refusals = {} if public else dict(_ALWAYS)
    if takes is not None:
        refusals |= _WITH_BODY
    if query is not None:
        refusals[400] = "invalid"
    for status, codes in (refuses or {}).items():
        refusals[status] = f"{refusals[status]}, {codes}" if status in refusals else codes
    responses: dict[Any, Any] = {
        (status, CONTENT_TYPE): OpenApiResponse(_answer(ProblemDocument), description=codes)
        for status, codes in refusals.items()
    }
    for status, answer in answers_with.items():
        if isinstance(answer, str):
            responses[status] = OpenApiResponse(None, description=answer)
        else:
            text = (answer.__doc__ or "").strip().split("\n")[0]
            responses[status] = OpenApiResponse(_answer(answer), description=text)
    decorate: Callable[[F], F] = extend_schema(
        operation_id=name,
        summary=summary,
        tags=[tag],
        request=takes,
        responses=responses,
        parameters=[*_query_parameters(query), *([_RUNTIME] if names_runtime else []), *headers],
    )
    return decorate


def _answer(kind: Any) -> dict[str, str]:
    """A reference to the component that describes answers of this type: the one that the view's own code is checked
    against."""
    name = "".join(part.__name__ for part in (*get_args(kind), get_origin(kind) or kind))
    _ANSWERS[name] = kind
    return {"$ref": f"#/components/schemas/{name}"}


def _components() -> dict[str, Any]:
    """The schemas of all answers, by name."""
    found: dict[str, Any] = {}
    for name, kind in _ANSWERS.items():
        schema = TypeAdapter(kind).json_schema(
            ref_template="#/components/schemas/{model}", mode="serialization"
        )
        for known, part in {**schema.pop("$defs", {}), name: {**schema, "title": name}}.items():
            if found.setdefault(known, part) != part:
                raise TypeError(f"two types of answers are called {known}")
    return found


_RUNTIME = OpenApiParameter(
    RUNTIME_HEADER,
    {"type": "string", "maxLength": 100, "pattern": "^[ -~¡-¬®-ÿ]*$"},
    OpenApiParameter.HEADER,
    description="What the runtime's process is called.",
)


def _query_parameters(model: type[BaseModel] | None) -> list[OpenApiParameter]:
    schema = model.model_json_schema() if model else {}
    return [
        OpenApiParameter(
            name,
            _without_null(part),
            OpenApiParameter.QUERY,
            required=name in schema.get("required", []),
            description=part.get("description", ""),
        )
        for name, part in schema.get("properties", {}).items()
    ]


def _without_null(part: dict[str, Any]) -> dict[str, Any]:
    kept = {k: v for k, v in part.items() if k not in ("title", "description", "anyOf", "default")}
    kept |= next((choice for choice in part.get("anyOf", []) if choice.get("type") != "null"), {})
    return kept if part.get("default") is None else kept | {"default": part["default"]}


# RFC 7493 with the one addition that RFC 8785 needs: a number that would be written as an integer is a safe integer.
I_JSON = {
    "title": "IJson",
    "description": "I-JSON: no integer beyond ±(2^53-1), no NUL character, no lone surrogate, no key twice.",
    "anyOf": [
        {"type": ["null", "boolean"]},
        {"type": "string", "pattern": fields.NO_NUL},
        {"type": "number", "minimum": -canonical.MAX_INTEGER, "maximum": canonical.MAX_INTEGER},
        {"type": "number", "minimum": 1e21},
        {"type": "number", "maximum": -1e21},
        {"type": "array", "items": {"$ref": "#/components/schemas/IJson"}},
        {
            "type": "object",
            "propertyNames": {"pattern": fields.NO_NUL},
            "additionalProperties": {"$ref": "#/components/schemas/IJson"},
        },
    ],
}

# OpenAPI 3.1 has no word for a stream's items: the schema is that of each event.
EVENT = {
    "type": "object",
    "description": "Each event of the stream.",
    "properties": {
        "event": {"enum": ["registry", "state", "confirmation"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
}


def complete(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Add what the views don't say: how each credential is sent, what I-JSON is, that the event stream is no JSON."""
    result = _name_i_json(result)
    result["components"]["schemas"] |= {"IJson": I_JSON, **_components()}
    result["components"]["securitySchemes"] = SECURITY_SCHEMES
    events = result["paths"][EVENTS]["get"]["responses"]["200"]
    events["content"] = {"text/event-stream": {"schema": EVENT}}
    return result


def _name_i_json(part: Any) -> Any:
    """``part`` with a reference to the component wherever a field is I-JSON."""
    if isinstance(part, list):
        return [_name_i_json(item) for item in part]
    if not isinstance(part, dict):
        return part
    if part.get("x-i-json"):
        kept = {key: value for key, value in part.items() if key in ("description", "default")}
        return {"$ref": "#/components/schemas/IJson", **kept}
    return {key: _name_i_json(value) for key, value in part.items()}
