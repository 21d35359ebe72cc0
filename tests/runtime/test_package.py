"""The package as others install it: what is in the wheel and the sdist, and that it works alone."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

RUNTIME = Path(__file__).resolve().parents[2] / "runtime"
PACKAGE = RUNTIME / "hookgate"

PROGRAM = """
import asyncio, pathlib, sys
import hookgate
from hookgate import SyncRuntime
from hookgate.loops import dag, react
assert "site" in pathlib.Path(hookgate.__file__).parent.parent.name, hookgate.__file__
with SyncRuntime("http://127.0.0.1:9", "hg_x", timeout=1) as runtime:
    with runtime.session("procurement") as session:
        outcome = session.call_tool("oa__pay", {}, execute=lambda args: "ran")
print(outcome.blocked_by, "django" in sys.modules)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    # Both from a copy: a build leaves its traces beside the sources.
    source = folder / "source"
    copy = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "."]
    names = subprocess.run(copy, cwd=RUNTIME, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        if (RUNTIME / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((RUNTIME / name).read_bytes())
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(source)]
    done = subprocess.run(build, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def sources() -> set[str]:
    """The package's files, as a wheel names them."""
    return {
        str(path.relative_to(RUNTIME))
        for path in PACKAGE.rglob("*")
        if path.suffix == ".py" or path.name == "py.typed"
    }


def test_the_wheel_has_every_module_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        described = archive.read(metadata).decode()
    assert names == sources()
    assert "hookgate/py.typed" in names
    assert "Requires-Python: >=3.11" in described


def test_the_sdist_can_be_built_from(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert sources() <= names
    assert {"pyproject.toml", "README.md"} <= names


def test_the_installed_wheel_works_without_the_portal_and_closes_when_in_doubt(
    built: Path, tmp_path: Path
) -> None:
    (wheel,) = built.glob("*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    # Its dependencies are the environment's; the package itself comes from the wheel.
    path = f"import sys; sys.path.insert(0, {str(site)!r})\n"
    done = subprocess.run(
        [sys.executable, "-P", "-c", path + PROGRAM],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "registry False\n"), done.stderr
    assert "the portal is out of reach" in done.stderr
