"""Text to tree."""

import ast
from functools import lru_cache
from typing import Any

from hookgate.matching import work
from hookgate.matching.matching import MatchError
from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedInput, VisitError

from hooks_app.conditions.tree import Call, Entries, Index, Items, Literal, Macro, Name, Node, Select

# Deeper trees are no condition that a person wrote, and recursion over them ends Python's stack.
MAX_DEPTH = 250

_GRAMMAR = r"""
?start: expr
?expr: or_ | or_ "?" or_ ":" expr -> conditional
?or_: and_ | or_ "||" and_ -> call_or
?and_: rel | and_ "&&" rel -> call_and
?rel: sum | rel REL sum -> binary
?sum: product | sum SUM product -> binary
?product: unary | product PRODUCT unary -> binary
?unary: member | "!" unary -> call_not | "-" unary -> call_minus
?member: primary
    | member "." NAME -> select
    | member "." NAME "(" [arguments] ")" -> method
    | member "[" expr "]" -> index
?primary: NAME -> name
    | "." NAME -> name
    | NAME "(" [arguments] ")" -> function
    | "(" expr ")"
    | "[" [expr ("," expr)* ","?] "]" -> items
    | "{" [entry ("," entry)* ","?] "}" -> entries
    | NUMBER -> number
    | TEXT -> text
    | "true" -> true
    | "false" -> false
    | "null" -> null
arguments: expr ("," expr)*
entry: expr ":" expr
REL: "<=" | ">=" | "==" | "!=" | "<" | ">" | /in\b/
SUM: "+" | "-"
PRODUCT: "*" | "/" | "%"
NUMBER.2: /0[xX][0-9a-fA-F]+[uU]?|(\d+\.\d+|\.\d+|\d+)([eE][+-]?\d+)?[uU]?/
TEXT.3: /[bB]?[rR]?(\"\"\"(\\.|[^\\])*?\"\"\"|'''(\\.|[^\\])*?'''|"(\\.|[^"\\\n])*"|'(\\.|[^'\\\n])*')/s
    | /[bB]?[rR]("[^"\n]*"|'[^'\n]*')/
NAME: /(?!(?:in|true|false|null)\b)[A-Za-z_]\w*/
COMMENT: /\/\/[^\n]*/
%ignore /\s+/
%ignore COMMENT
"""


@lru_cache(maxsize=1024)
def parse(source: str) -> Node:
    """The tree of a condition that compiles. Raises MatchError for one that this grammar doesn't know."""
    try:
        tree: Node = _parser().parse(source)
    except UnexpectedInput as error:
        raise MatchError(f"the condition can't be read at line {error.line}, column {error.column}") from None
    except (VisitError, RecursionError):
        raise MatchError("the condition can't be read") from None
    if _depth(tree) > MAX_DEPTH:
        raise MatchError(f"the condition is nested more than {MAX_DEPTH} deep")
    return tree


@lru_cache(maxsize=1)
def _parser() -> Any:
    return Lark(_GRAMMAR, parser="lalr", lexer="contextual", transformer=_Builder(), maybe_placeholders=True)


def _depth(node: Node) -> int:
    depth, level = 0, [node]
    while level:
        depth += 1
        level = [child for one in level for child in one.children()]
    return depth


class _Builder(Transformer[Token, Node]):
    """Makes nodes as the parser goes along."""

    def conditional(self, parts: list[Any]) -> Node:
        return Call("?:", tuple(parts))

    def binary(self, parts: list[Any]) -> Node:
        left, sign, right = parts
        return Call(str(sign), (left, right))

    def call_or(self, parts: list[Any]) -> Node:
        return _chain("||", *parts)

    def call_and(self, parts: list[Any]) -> Node:
        return _chain("&&", *parts)

    def call_not(self, parts: list[Any]) -> Node:
        return Call("!", tuple(parts))

    def call_minus(self, parts: list[Any]) -> Node:
        [operand] = parts
        number = isinstance(operand, Literal) and type(operand.value) in (int, float)
        return Literal(-operand.value) if number else Call("-", (operand,))

    def select(self, parts: list[Any]) -> Node:
        return Select(parts[0], str(parts[1]))

    def method(self, parts: list[Any]) -> Node:
        of, name, arguments = parts[0], str(parts[1]), tuple(parts[2] or ())
        if name in work.MACROS and len(arguments) > 1 and isinstance(arguments[0], Name):
            return Macro(name, of, arguments[0].name, arguments[1:])
        return Call(name, arguments, of)

    def index(self, parts: list[Any]) -> Node:
        return Index(parts[0], parts[1])

    def name(self, parts: list[Any]) -> Node:
        return Name(str(parts[0]))

    def function(self, parts: list[Any]) -> Node:
        return Call(str(parts[0]), tuple(parts[1] or ()))

    def items(self, parts: list[Any]) -> Node:
        return Items(tuple(part for part in parts if part is not None))

    def arguments(self, parts: list[Any]) -> list[Any]:
        return parts

    def entries(self, parts: list[Any]) -> Node:
        return Entries(tuple(part for part in parts if part is not None))

    def entry(self, parts: list[Any]) -> tuple[Node, Node]:
        return parts[0], parts[1]

    def number(self, parts: list[Any]) -> Node:
        text = str(parts[0]).rstrip("uU")
        return Literal(
            int(text, 16) if text[:2].lower() == "0x" else int(text) if text.isdigit() else float(text)
        )

    def text(self, parts: list[Any]) -> Node:
        return Literal(_read_text(str(parts[0])))

    def true(self, parts: list[Any]) -> Node:
        return Literal(True)

    def false(self, parts: list[Any]) -> Node:
        return Literal(False)

    def null(self, parts: list[Any]) -> Node:
        return Literal(None)


def _chain(sign: str, left: Node, right: Node) -> Node:
    # Flat, because people write long ones.
    before = left.arguments if isinstance(left, Call) and left.name == sign else (left,)
    return Call(sign, (*before, right))


def _read_text(written: str) -> Any:
    """The value of a text as it is written: CEL's escapes are Python's, but for ``\\?`` and the back tick."""
    if "b" in written[:2].lower().partition("'")[0].partition('"')[0]:
        return b""  # what bytes hold is nobody's question here
    try:
        return ast.literal_eval(written.replace("\\`", "`").replace("\\?", "?"))
    except (SyntaxError, ValueError):
        return written.strip("rR'\"")
