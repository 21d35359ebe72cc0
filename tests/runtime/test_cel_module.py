"""Conditions load the library's compiled part, whoever loads the package before or after, and from many threads."""

import subprocess
import sys

import pytest

CONDITION = """
from hookgate.matching.matching import compile_condition
condition = compile_condition("args.amount >= 50000 && args.to.matches('^x')")
def verdict(amount):
    return condition.evaluate({"args": {"amount": amount, "to": "xy"}})
"""
ALONE = f"""
import sys
{CONDITION}
print(verdict(60000), verdict(1), "cel.cli" in sys.modules)
"""
AFTER = f"""
{CONDITION}
import cel
print(verdict(60000), cel.compile("1 < 2").execute({{}}), hasattr(cel, "cli"))
"""
BEFORE = f"""
import cel
{CONDITION}
print(verdict(60000), cel.compile("1 < 2").execute({{}}), verdict(1))
"""
THREADS = """
import threading
from hookgate.matching import celmodule
start, found = threading.Barrier(16), []
def load():
    start.wait()
    found.append(celmodule.load())
threads = [threading.Thread(target=load) for _ in range(16)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(found), len(set(map(id, found))), found[0].compile("1 < 2").execute({}))
"""


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        (ALONE, "True False False"),
        (AFTER, "True True True"),
        (BEFORE, "True True False"),
        (THREADS, "16 1 True"),
    ],
    ids=["alone", "package afterwards", "package before", "threads"],
)
def test_conditions_work_however_the_library_is_loaded(program: str, printed: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == (printed, "")
