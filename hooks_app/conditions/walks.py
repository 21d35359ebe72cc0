"""Which collections the macros of a condition walk, one inside the other: ``walks`` in the manifest.

A member is a path (``args.to``; ``[]`` is any item or value of what stands before), a number of items, or several of
them joined by `` + ``, of which the sizes are added. What can't be written so is the whole of what it is made from.
"""

import json
import re
from collections.abc import Iterator, Mapping

from hookgate.matching import matching
from hookgate.matching.matching import MatchError
from hookgate.matching.work import Walks

from hooks_app.conditions import parsing
from hooks_app.conditions.tree import Call, Entries, Index, Items, Literal, Macro, Name, Node, Select, walk

MAX_NESTED = 2
_WORD = re.compile(r"[A-Za-z_]\w*")
# No path: whoever reads it takes the size of everything that the condition reads.
_WHOLE = "?"
# What a collection is made of: paths and numbers, and what its items are.
Terms = tuple[str, ...]
Scope = Mapping[str, Terms]


def find(source: str) -> Walks | None:
    """The chains of collections that nested macros walk, or null for a condition that has none.

    Raises MatchError for one that nests more than two, or that can't be read.
    """
    chains = list(dict.fromkeys(_find(parsing.parse(source), {}, ())))
    return tuple(chains) or None


def compile(source: str) -> matching.Condition:
    """The condition, compiled, with what bounds its work. Raises MatchError for what may not be saved."""
    matching.compile_condition(source)
    return matching.compile_condition(source, find(source))


def _find(node: Node, scope: Scope, outer: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if not isinstance(node, Macro):
        for child in node.children():
            yield from _find(child, scope, outer)
        return
    yield from _find(node.of, scope, outer)
    if len(outer) == MAX_NESTED:
        raise MatchError(
            f"macros are nested more than {MAX_NESTED} deep at {node.kind}({node.variable}, …); walk one list less"
        )
    terms = _terms(node.of, scope)
    chain = (*outer, _WHOLE if _WHOLE in terms else " + ".join(terms) or "0")
    if len(chain) > 1:
        yield chain
    inside = {**scope, node.variable: _items(terms, node.of, scope)}
    for part in node.body:
        yield from _find(part, inside, chain)


def _terms(node: Node, scope: Scope) -> Terms:
    """What a collection's items come from."""
    match node:
        case Name(name):
            return scope.get(name, (name,))
        case Select(Entries(entries), _) | Index(Entries(entries), _):
            return tuple(term for _, value in entries for term in _terms(value, scope))
        case Select(of, field):
            return tuple(_step(term, field) for term in _terms(of, scope))
        case Index(of, key):
            if isinstance(of, Items):
                return tuple(term for item in of.items for term in _terms(item, scope))
            literal = key.value if isinstance(key, Literal) and isinstance(key.value, str) else None
            return tuple(_step(term, literal) for term in _terms(of, scope))
        case Items(items):
            return (str(len(items)),)
        case Entries(entries):
            return (str(len(entries)),)
        case Macro(kind, of, _, _) if kind in ("map", "filter"):
            return _terms(of, scope)
        case Call("+", (left, right)):
            return (*_terms(left, scope), *_terms(right, scope))
        case Call("?:", (_, yes, no)):
            return (*_terms(yes, scope), *_terms(no, scope))
        case Call("dyn", (of,)):
            return _terms(of, scope)
    return _whole(node, scope)


def _items(terms: Terms, node: Node, scope: Scope) -> Terms:
    """What one item of a collection is, when it is walked itself."""
    match node:
        case Items(items):
            return tuple(term for item in items for term in _terms(item, scope))
        case Macro("map", of, variable, body):
            inside = {**scope, variable: _items(_terms(of, scope), of, scope)}
            return _terms(body[-1], inside)
        case Macro("filter", of, _, _):
            return _items(_terms(of, scope), of, scope)
        case Call("+", (left, right)):
            parts = [_items(_terms(part, scope), part, scope) for part in (left, right)]
            return (*parts[0], *parts[1])
        case Call("?:", (_, yes, no)):
            parts = [_items(_terms(part, scope), part, scope) for part in (yes, no)]
            return (*parts[0], *parts[1])
        case Entries():
            return ("0",)  # its keys, which are no collections
    return tuple(_step(term, None) for term in terms)


def _step(term: str, field: str | None) -> str:
    """A field of what a term names, or any item of it where the field isn't known."""
    if term.isdigit() or term == _WHOLE:
        return _WHOLE
    if field is None:
        return f"{term}[]"
    return f"{term}.{field}" if _WORD.fullmatch(field) else f"{term}[{json.dumps(field, ensure_ascii=False)}]"


def _whole(node: Node, scope: Scope) -> Terms:
    """What some other part makes: nothing where it reads no variable, else anything."""
    return (_WHOLE,) if any(isinstance(part, Name) for part in walk(node)) else ("0",)
