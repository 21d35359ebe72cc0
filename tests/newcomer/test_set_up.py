"""What `make` does before anything of ours runs: set up once, begin again after an interruption, say what is missing.

The interpreter is a stand-in that writes down what it is asked for, so that nothing is installed here;
``test_full.py`` installs in earnest.
"""

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from examples.portal_process import ROOT
from tests.newcomer import clone
from tests.newcomer.clone import Make

# Answers to `-c`, makes a .venv that holds itself, and hangs where a file tells it to.
STAND_IN = f"""#!/bin/sh
printf '%s\\n' "$*" >> ../asked
case "$*" in
-c*) exec "{sys.executable}" -c "import sys; sys.version_info = (3, $(cat ../minor)); exec(sys.argv[1])" "$2" ;;
*"-m venv"*) mkdir -p .venv/bin && cp "$0" .venv/bin/python && step=venv ;;
*"-m pip"*) step=pip ;;
esac
if [ -e "../hang-in-$step" ]; then touch "../reached-$step"; sleep 60; fi
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """What `make` needs of a clone, and beside it the stand-in for Python."""
    made = tmp_path.resolve() / clone.NAME
    for name in ("Makefile", "requirements.lock", "requirements-dev.lock", "runtime/pyproject.toml"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, made / name)
    (tmp_path / "python3").write_text(STAND_IN)
    (tmp_path / "python3").chmod(0o755)
    (tmp_path / "minor").write_text("11")
    return made


def make_run(tree: Path, *arguments: str, prefix: tuple[str, ...] = ()) -> tuple[int, str, list[str]]:
    """`make run` until it ends: its exit code, what it printed, and what Python was asked for, in one word each."""
    (tree.parent / "asked").unlink(missing_ok=True)
    with Make(tree, "run", f"PYTHON={tree.parent / 'python3'}", *arguments, prefix=prefix) as make:
        code = make.end()
        return code, make.text, asked(tree)


def asked(tree: Path) -> list[str]:
    """The modules that Python was asked to run, in order."""
    file = tree.parent / "asked"
    lines = file.read_text().splitlines() if file.exists() else []
    return [line.split()[1] for line in lines if line.startswith("-m")]


def test_it_is_set_up_once(tree: Path) -> None:
    assert make_run(tree)[::2] == (0, ["venv", "pip", "pip", "examples"])
    assert make_run(tree) == (0, "", ["examples"])


def test_new_requirements_are_installed_into_what_is_there(tree: Path) -> None:
    make_run(tree)
    (tree / ".venv" / "mine").touch()
    later = (tree / ".venv" / "installed").stat().st_mtime + 1
    os.utime(tree / "requirements.lock", (later, later))
    assert make_run(tree)[2] == ["venv", "pip", "pip", "examples"]
    assert (tree / ".venv" / "mine").exists()


@pytest.mark.parametrize("step", ["venv", "pip"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill -9"])
def test_an_interrupted_set_up_begins_again(tree: Path, step: str, number: signal.Signals) -> None:
    hang = tree.parent / f"hang-in-{step}"
    hang.touch()
    with Make(tree, "run", f"PYTHON={tree.parent / 'python3'}") as make:
        make.reach(tree.parent / f"reached-{step}")
        (tree / ".venv" / "half").touch()
        make.signal(number)
        assert make.end() != 0
    hang.unlink()
    assert make_run(tree)[::2] == (0, ["venv", "pip", "pip", "examples"])
    assert not (tree / ".venv" / "half").exists()
    assert make_run(tree) == (0, "", ["examples"])


def test_a_clone_that_was_moved_is_set_up_again(tree: Path) -> None:
    make_run(tree)
    (tree / ".venv" / "old").touch()
    moved = tree.rename(tree.with_name("elsewhere"))
    assert make_run(moved)[::2] == (0, ["venv", "pip", "pip", "examples"])
    assert not (moved / ".venv" / "old").exists()


def test_a_python_that_is_gone_is_replaced(tree: Path) -> None:
    make_run(tree)
    (tree / ".venv" / "bin" / "python").unlink()
    assert make_run(tree)[::2] == (0, ["venv", "pip", "pip", "examples"])


def test_an_old_python_is_refused_before_anything_is_made(tree: Path) -> None:
    (tree.parent / "minor").write_text("10")
    code, text, _ = make_run(tree)
    assert code != 0
    assert text.startswith("Hookgate needs Python 3.11 or newer; name one with make PYTHON=")
    assert not (tree / ".venv").exists()


def test_no_python_at_all(tree: Path) -> None:
    code, text, _ = make_run(tree, "PYTHON=python3-that-is-nowhere")
    assert code != 0
    assert text.startswith(
        "There is no python3-that-is-nowhere; Hookgate needs Python 3.11 or newer: make PYTHON="
    )


def test_a_clone_that_cannot_be_written_to(tree: Path) -> None:
    prefix = read_only(tree)
    code, text, _ = make_run(tree, prefix=prefix)
    assert code != 0
    assert text.startswith(f"You may not write to {tree}, where .venv must go; use a clone of your own.")


def read_only(folder: Path) -> tuple[str, ...]:
    """Take away the right to write to ``folder``; from root only a mount can, within the command that is returned."""
    if os.geteuid() != 0:
        folder.chmod(0o555)
        return ()
    if not clone.may("unshare", "--mount", "true"):
        pytest.skip("root may write everywhere, and may not mount here")
    mount = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && cd "$0" && exec "$@"'
    return ("unshare", "--mount", "sh", "-c", mount, str(folder))
