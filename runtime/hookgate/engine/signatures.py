"""Whether a function can take what a tool gets, found out before anybody is asked.

A tool gets one dict. A function that wants named parameters is wrapped in `by_name`.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
import types
import typing
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

_PLAIN: Final = (str, int, float, bool, bytes, list, tuple, set, type(None))
_KEYWORDS: Final = frozenset({inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY})
# How deep aliases may lead to a type.
_DEEP: Final = 20
# Functions that were found fit. Weak: a closure made for one call must not live on here.
_fit: Final[weakref.WeakSet[Any]] = weakref.WeakSet()


class ByName(functools.partial[Any]):
    """A tool that hands its arguments to a function by name. Made by `by_name`.

    A subclass of `functools.partial`, so that whoever asks what kind of function it is sees the one inside.
    """

    names: frozenset[str]
    required: frozenset[str]
    takes_any: bool

    def __call__(self, args: Mapping[str, Any], /) -> Any:
        """Call the function. Raises TypeError for arguments that it hasn't."""
        self.check(args)
        # A partial inside is taken apart by `functools.partial`: what it has set is with the rest.
        return super().__call__(**args)

    def check(self, args: Mapping[str, Any]) -> None:
        """Raise TypeError for arguments that the function hasn't, or that begin with ``_``."""
        unknown = sorted(
            name for name in args if name.startswith("_") or not (self.takes_any or name in self.names)
        )
        if unknown:
            known = ", ".join(sorted(self.names)) or "none"
            raise TypeError(
                f"{_name(self.func)}() has no argument {', '.join(map(repr, unknown))}; it takes {known}"
            )

    def missing(self, args: Mapping[str, Any]) -> list[str]:
        """The arguments that the function needs and ``args`` hasn't."""
        return sorted(self.required - args.keys())


def by_name(function: Callable[..., Any]) -> ByName:
    """A tool that hands its arguments to ``function`` by name: ``execute=by_name(pay)`` for
    ``def pay(amount, note="")``.

    Arguments that ``function`` hasn't, or that begin with ``_``, are a TypeError of `call_tool`, before anybody is
    asked; what a `functools.partial` has set already is not an argument any more. Raises TypeError for what isn't a
    function, what has no signature that can be read, and what needs an argument that has no name to pass it by.
    """
    if isinstance(function, ByName):
        return function
    if not callable(function):
        raise TypeError(f"by_name takes a function, not {type(function).__name__}")
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        raise TypeError(
            f"by_name can't read the signature of {_name(function)}; wrap it in a function with named parameters"
        ) from None
    bound = _set_already(function)
    named = [one for one in parameters if one.kind in _KEYWORDS and one.name not in bound]
    for one in parameters:
        unreachable = one.kind is inspect.Parameter.POSITIONAL_ONLY or one.name.startswith("_")
        if one.default is inspect.Parameter.empty and unreachable and one.kind not in _VARIABLE:
            raise TypeError(f"by_name can't pass {one.name!r} of {_name(function)}() by name")
    tool = ByName(function)
    tool.names = frozenset(one.name for one in named if not one.name.startswith("_"))
    tool.required = frozenset(one.name for one in named if one.default is inspect.Parameter.empty)
    # Beside what a partial has set, which no caller may replace.
    tool.takes_any = not bound and any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters)
    functools.update_wrapper(tool, function)
    return tool


_VARIABLE: Final = frozenset({inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD})


def _set_already(function: Any) -> frozenset[str]:
    names: set[str] = set()
    while isinstance(function, functools.partial):
        names |= function.keywords.keys()
        function = function.func
    return frozenset(names)


def check(tool: Any, args: Any = None) -> None:
    """Raise TypeError for a tool that can't take a dict of arguments, or not these ``args``."""
    if isinstance(tool, ByName):
        if isinstance(args, dict):
            tool.check({name: value for name, value in args.items() if isinstance(name, str)})
        return
    if not callable(tool):
        raise TypeError(f"execute must be a function of the arguments, not {type(tool).__name__}")
    function = getattr(tool, "__func__", tool)
    if type(function) is types.FunctionType:
        if function in _fit or (function is tool and _is_plain(function)):
            return
        _check_closely(tool)
        if function is tool:
            _fit.add(function)
    else:
        _check_closely(tool)


def check_all(tools: Mapping[str, Any]) -> dict[str, Any]:
    """The tools, by name. Raises TypeError for one that can't take a dict of arguments."""
    for tool in tools.values():
        check(tool)
    return dict(tools)


def _is_plain(function: types.FunctionType) -> bool:
    """``def tool(args)`` without annotations: seen at a glance, as a closure is a new function at each call."""
    code = function.__code__
    return (
        code.co_argcount == 1
        and not function.__annotations__
        and not code.co_kwonlyargcount
        and "__wrapped__" not in function.__dict__
        and "__signature__" not in function.__dict__
    )


def _check_closely(tool: Any) -> None:
    try:
        signature = inspect.signature(tool)
    except (ValueError, TypeError):
        # Some built-in functions don't say what they take.
        return
    try:
        signature.bind({})
    except TypeError as error:
        raise TypeError(
            f"{_name(tool)}{signature} can't take its arguments as one dict ({error}); "
            f"use execute=hookgate.by_name({_name(tool)})"
        ) from None
    first = next(iter(signature.parameters.values()))
    kind = _resolve(first.annotation, tool)
    if kind is not None and _refuses_dicts(kind):
        raise TypeError(
            f"{_name(tool)}{signature} gets all its arguments as one dict, and {first.name} is no dict; "
            f"use execute=hookgate.by_name({_name(tool)})"
        )


def _name(function: Any) -> str:
    name = getattr(function, "__name__", None)
    if isinstance(function, functools.partial) and name is None:
        return _name(function.func)
    return name if isinstance(name, str) else type(function).__name__


def _resolve(annotation: Any, tool: Any) -> Any:
    """What an annotation says; None where it can't be found out or says nothing."""
    if annotation is inspect.Parameter.empty:
        return None
    if annotation is None:
        return type(None)
    for _ in range(_DEEP):
        if isinstance(annotation, typing.ForwardRef):
            annotation = annotation.__forward_arg__
        if not isinstance(annotation, str):
            return annotation
        annotation = _evaluate(annotation, tool)
    return None


def _evaluate(text: str, tool: Any) -> Any:
    """The annotation that a function was written with, evaluated where it was written."""
    for function in _insides(tool):
        names = dict(getattr(function, "__globals__", {}))
        closure = (
            inspect.getclosurevars(function).nonlocals if isinstance(function, types.FunctionType) else {}
        )
        try:
            # The program's own source, as typing.get_type_hints evaluates it, but one annotation alone.
            value = eval(text, names, dict(closure))  # noqa: S307
        except Exception:  # noqa: BLE001, S112  (what can't be resolved passes)
            continue
        return type(None) if value is None else value
    return None


def _insides(tool: Any) -> Iterator[Any]:
    """The functions behind partials, methods, callable objects and decorators."""
    while isinstance(tool, functools.partial):
        tool = tool.func
    if inspect.isclass(tool):
        tool = tool.__init__
    elif not isinstance(tool, types.FunctionType | types.MethodType):
        tool = getattr(type(tool), "__call__", tool)  # noqa: B004  (the function itself is wanted)
    tool = getattr(tool, "__func__", tool)
    yield inspect.unwrap(tool)
    yield tool


def _refuses_dicts(kind: Any, depth: int = 0) -> bool:
    """Whether no dict is an instance of a type."""
    if depth > _DEEP:
        return False
    if kind is None:
        return True
    if isinstance(kind, type) and not typing.get_origin(kind):
        return _is_no_dict(kind)
    if isinstance(kind, typing.NewType):
        return _refuses_dicts(kind.__supertype__, depth + 1)
    if isinstance(kind, typing.TypeVar):
        return kind.__bound__ is not None and _refuses_dicts(kind.__bound__, depth + 1)
    origin = typing.get_origin(kind)
    if origin is typing.Annotated:
        return _refuses_dicts(typing.get_args(kind)[0], depth + 1)
    if origin in (typing.Union, types.UnionType):
        return all(_refuses_dicts(part, depth + 1) for part in typing.get_args(kind))
    if origin is not None:
        return isinstance(origin, type) and _is_no_dict(origin)
    # The statement `type Alias = …` of newer Pythons.
    alias = getattr(kind, "__value__", None)
    return alias is not None and _refuses_dicts(alias, depth + 1)


def _is_no_dict(kind: type) -> bool:
    if issubclass(kind, dict):
        return False
    return issubclass(kind, _PLAIN) or dataclasses.is_dataclass(kind) or _is_model(kind)


def _is_model(kind: type) -> bool:
    for name in ("pydantic", "pydantic.v1"):
        model = getattr(sys.modules.get(name), "BaseModel", None)
        if isinstance(model, type) and issubclass(kind, model):
            return True
    return False
