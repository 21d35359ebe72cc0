"""Whose code runs when an object is called."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any, Final

Allowed = Callable[[str], bool]

# How many decorators, partials and methods may lie around a function.
_DEEP: Final = 50


class NotOwn(Exception):
    """It is defined elsewhere than it may be."""


def check(called: Any, allowed: Allowed) -> None:
    """Raise NotOwn unless every function that a call of ``called`` begins with is defined in a module that is allowed:
    the function itself, of a method the class's, of a partial the one inside, of an object its ``__call__``.

    What a module says of itself is not taken alone: ``__module__`` can be set, the globals of a function can't be.
    A function in a decorator from elsewhere is its owner's, if the decorator says what it is around (``__wrapped__``).
    """
    for _ in range(_DEEP):
        if isinstance(called, functools.partial):
            called = called.func
        elif isinstance(called, types.MethodType):
            called = called.__func__
        elif isinstance(called, types.FunctionType):
            return _check_function(called, allowed)
        elif inspect.isclass(called):
            raise NotOwn("it is a class; name a function, a method or an object that can be called")
        elif isinstance(called, types.BuiltinFunctionType):
            return _check_builtin(called, allowed)
        elif not callable(called):
            raise NotOwn("it is not callable")
        elif isinstance(getattr(called, "__wrapped__", None), types.FunctionType):
            # As functools.cache makes them.
            called = called.__wrapped__
        else:
            _check_name(type(called).__module__, type(called).__qualname__, allowed)
            called = type(called).__call__
            if not isinstance(called, types.FunctionType | types.MethodType | functools.partial):
                raise NotOwn("its __call__ is no function")
    raise NotOwn("it is wrapped too often")


def _check_function(function: types.FunctionType, allowed: Allowed) -> None:
    _check_name(function.__module__, function.__qualname__, allowed)
    homes = [str(one.__globals__.get("__name__")) for one in _unwrap(function)]
    if not any(map(allowed, homes)):
        raise NotOwn(f"{function.__qualname__} is defined in {homes[0]}, whatever it says of itself")


def _check_builtin(function: Any, allowed: Allowed) -> None:
    home = getattr(function, "__self__", None)
    if not inspect.ismodule(home):
        raise NotOwn(f"{function.__qualname__} is a method of Python's own types")
    _check_name(home.__name__, function.__qualname__, allowed)


def _check_name(module: Any, name: str, allowed: Allowed) -> None:
    if not isinstance(module, str) or not allowed(module):
        raise NotOwn(f"{name} is defined in {module}, and not in a package that python_handlers lists")


def _unwrap(function: types.FunctionType) -> Iterator[types.FunctionType]:
    for _ in range(_DEEP):
        yield function
        inner = getattr(function, "__wrapped__", None)
        if not isinstance(inner, types.FunctionType):
            return
        function = inner
