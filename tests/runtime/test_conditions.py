"""What a condition reads, and that it reads nothing else."""

import subprocess
import sys
import time
from typing import Any

import cel
import pytest
from hookgate.matching.matching import MatchError, compile_condition
from hypothesis import given
from hypothesis import strategies as st

FIELDS: dict[str, list[str] | None] = {
    "args.amount > 1": ["amount"],
    "has(args.a) && args.b.c > 1": ["a", "b"],
    "args . a == 'args.b'": ["a"],
    "args.text.contains('it\\'s args.b')": ["text"],
    # Whatever does more with a variable reads it as a whole.
    "args['a'] == 1": None,
    "args.a == 1 && args['b'] == 1": None,
    "args.a == 1 && size(args) > 0": None,
    "args.a == 1 && args.size() > 0": None,
    "args == args": None,
    "args.a == 1 && {'x': args}.x.b == 1": None,
    "args.all(k, args.a == 1)": None,
    "args.items.all(args, args.x > 5)": None,
    "metadata.args == 1 && args.a == 1": None,
    "r'\\' == args.a && args['b'] == ' '": None,
    "args.a == 1 // args.b": None,
    '"""args.b" """ == args.a': None,
}


@pytest.mark.parametrize("source", FIELDS)
def test_which_fields_an_expression_reads(source: str) -> None:
    read = compile_condition(source).fields["args"]
    assert (None if read is None else sorted(read)) == FIELDS[source]


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from(["", "a", "args.a", "x'y"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abcd"), inner, max_size=4)
    ),
    max_leaves=8,
)


def _judge(evaluate: Any, variables: dict[str, Any]) -> Any:
    try:
        return evaluate(variables)
    except BaseException as error:
        return "failed" if not isinstance(error, KeyboardInterrupt) else error


@given(
    args=st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4),
    parts=st.lists(
        st.sampled_from(
            [
                "args.a == 1", "has(args.b)", "args.c.d == null", "has(args.c.d)", "args.b.size() > 1",
                "args.d == 'args.a'", "args['a'] == 1", "size(args) > 1", "args.c.exists(args, args.a == 1)",
                "args.b in [1, 'a', args.a]", "'d' in args", "args.a ? args.b == 1 : args.c == 2",
            ]
        ),
        min_size=1,
        max_size=3,
    ),
    joint=st.sampled_from([" && ", " || "]),
)  # fmt: skip
def test_reading_less_changes_no_verdict(args: dict[str, Any], parts: list[str], joint: str) -> None:
    source = joint.join(f"({part})" for part in parts)
    whole = _judge(cel.compile(source).execute, {"args": args})
    assert _judge(compile_condition(source).evaluate, {"args": args}) == (
        whole if isinstance(whole, bool) else "failed"
    )


class Hostile:
    """Fails whoever looks into it."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"touched: {name}")


def test_what_an_expression_does_not_name_is_not_touched_and_costs_nothing() -> None:
    huge = {"text": "x" * 100_000_000, "list": [0] * 1_000_000, "trap": Hostile(), "amount": 2}
    variables = {"event": "PreToolUse", "args": huge, "result": Hostile(), "metadata": {"trap": Hostile()}}
    started = time.process_time()
    for _ in range(100):
        assert compile_condition("event == 'PreToolUse'").evaluate(variables)
        assert compile_condition("args.amount > 1 && !has(args.missing)").evaluate(variables)
    # Converting all of it once takes longer than this.
    assert time.process_time() - started < 0.5
    with pytest.raises(MatchError, match="256 KiB"):
        compile_condition("args.text == ''").evaluate(variables)
    with pytest.raises(MatchError, match="256 KiB"):
        compile_condition("size(args) > 1").evaluate(variables)


@pytest.mark.parametrize(
    "value",
    [
        "x" * 300_000,
        ["x" * 100_000] * 3,
        [0] * 300_000,
        [[0] * 100_000] * 3,
        [{"a": 1}] * 200_000,
        {"k" * 300_000: 0},
        {str(number): True for number in range(60_000)},
        {"a": ("x" * 150_000, {"b": "y" * 150_000})},
        b"x" * 300_000,
    ],
    ids=["text", "texts", "numbers", "lists", "objects", "key", "keys", "nested", "bytes"],
)
def test_what_an_expression_reads_is_bounded_whatever_its_shape(value: Any) -> None:
    for source in ("args.value != null", "size(args) > 0"):
        with pytest.raises(MatchError, match="256 KiB"):
            compile_condition(source).evaluate({"args": {"value": value}})


def test_the_engine_is_imported_with_the_first_condition_and_not_before() -> None:
    code = """
import sys
from hookgate import HookContext, HookRegistry, HookResult, PreToolUseHook
from hookgate.matching.matching import compile_condition, compile_matcher, compile_tool_filter
from hookgate.session.session import Session
class Guard(PreToolUseHook):
    tool_filter = "oa__*"
    async def execute(self, ctx):
        return HookResult()
HookRegistry([Guard()])
compile_tool_filter("oa__*"), compile_matcher("oa__.*pay")
assert not {"cel", "cel.cel"} & sys.modules.keys()
compile_condition("args.amount > 1")
assert ("cel" in sys.modules, "cel.cel" in sys.modules) == (False, True)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
