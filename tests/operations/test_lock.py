"""What is installed is what was tested: the locks hold every package, each at one version and with hashes alone."""

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from examples.portal_process import ROOT
from tests import audit

LOCKS = {"requirements.txt": "requirements.lock", "requirements-dev.txt": "requirements-dev.lock"}
PYTHONS = ["3.11.0", "3.11.14", "3.12.0", "3.13.0"]
ENTRY = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>[\w.]+)(?: ; (?P<marker>[^\\]+))?")
OURS = "hookgate"


def reasons(file: str) -> list[Requirement]:
    """The packages that a list of reasons names, without the lists that it includes and without ours."""
    lines = [line.partition("#")[0].strip() for line in (ROOT / file).read_text().splitlines()]
    return [Requirement(line) for line in lines if line and not line.startswith("-")]


def locked(file: str) -> dict[str, tuple[str, int]]:
    """Version and number of hashes of each package in a lock. Fails on anything that is not name, version, hashes."""
    found = {}
    for entry in entries(file):
        first, *hashes = entry
        match = ENTRY.fullmatch(first)
        assert match, f"{file}: {first}"
        assert hashes, f"{file}: {first} has no hash"
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", line) for line in hashes), first
        assert match["name"] not in found, f"{file}: two versions of {match['name']}"
        found[match["name"]] = (match["version"], len(set(hashes)))
    return found


def entries(file: str) -> list[list[str]]:
    """The logical lines of a lock, each as its physical ones without the comments between them."""
    text = "\n".join(
        line for line in (ROOT / file).read_text().splitlines() if not line.strip().startswith("#")
    )
    logical = text.replace("\\\n", "\0").splitlines()
    return [[part.strip() for part in line.split("\0")] for line in logical if line.strip()]


@pytest.mark.parametrize(("file", "lock"), LOCKS.items())
def test_each_package_that_has_a_reason_is_locked_at_its_version(file: str, lock: str) -> None:
    pinned = locked(lock)
    for wanted in reasons(file):
        [specifier] = wanted.specifier
        assert specifier.operator == "=="
        assert pinned.get(canonicalize_name(wanted.name), ("none", 0))[0] == specifier.version, (
            f"{wanted.name}: run `make lock`"
        )


def test_the_locks_agree() -> None:
    ours, with_tests = locked("requirements.lock"), locked("requirements-dev.lock")
    assert {name: entry for name, entry in with_tests.items() if name in ours} == ours


@pytest.mark.parametrize(("file", "lock"), LOCKS.items())
def test_whatever_a_locked_package_needs_is_locked(file: str, lock: str) -> None:
    """On each Python, on Linux and macOS, with the extras that are asked for; our runtime's own needs as well."""
    pinned, seen = locked(lock), set()
    queue = [(str(wanted.name), frozenset(wanted.extras)) for name in LOCKS for wanted in reasons(name)]
    if file == "requirements.txt":
        queue = [(wanted.name, frozenset(wanted.extras)) for wanted in reasons(file)]
    queue.append((OURS, frozenset()))
    while queue:
        name, extras = queue.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        for needed in needs(name, extras):
            version = pinned.get(canonicalize_name(needed.name), ("none", 0))[0]
            assert needed.specifier.contains(version), (
                f"{name} needs {needed}, locked is {version}: run `make lock`"
            )
            queue.append((canonicalize_name(needed.name), frozenset(needed.extras)))
    assert len(seen) > len(reasons(file))


def needs(name: str, extras: frozenset[str]) -> list[Requirement]:
    """What an installed package needs on any Python and system that we run on; none for one of another system."""
    try:
        texts = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return []
    found = [Requirement(text) for text in texts]
    return [
        needed
        for needed in found
        if needed.marker is None or any(needed.marker.evaluate(e) for e in worlds(extras))
    ]


def worlds(extras: frozenset[str]) -> list[dict[str, str]]:
    """The environments that markers are judged in."""
    return [
        {
            **{key: str(value) for key, value in default_environment().items()},
            "python_full_version": python,
            "python_version": python.rpartition(".")[0],
            "sys_platform": system,
            "extra": extra,
        }
        for python in PYTHONS
        for system in ("linux", "darwin")
        for extra in ("", *extras)
    ]


def test_hashes_are_of_every_platform() -> None:
    """A package with compiled code has a file for each Python and platform, and a hash for each of those."""
    for name, (_, hashes) in locked("requirements-dev.lock").items():
        try:
            wheel = metadata.distribution(name).read_text("WHEEL") or ""
        except metadata.PackageNotFoundError:
            continue
        if "Root-Is-Purelib: false" in wheel and "-abi3-" not in wheel and "py3-none-" not in wheel:
            assert hashes >= 8, f"{name}: {hashes} files for three Pythons on four platforms"


@pytest.mark.parametrize("file", [*LOCKS.values(), "Makefile", "Dockerfile", "compose.yaml"])
def test_no_address_of_an_index(file: str) -> None:
    text = (ROOT / file).read_text()
    assert not re.search(r"^\s*(-i|--index-url|--extra-index-url|--find-links|-f)\b", text, re.MULTILINE)
    assert not (file in LOCKS.values() and re.search(r"https?:|file:|@ ", text))


def test_nothing_is_installed_around_the_locks() -> None:
    for file in ("Makefile", "Dockerfile"):
        for line in (ROOT / file).read_text().splitlines():
            if re.search(r"\$\(INSTALL\) |pip install (?!--quiet)", line):
                assert "--require-hashes" in line or "--no-deps --no-build-isolation" in line, line


def hole(**changes: object) -> dict[str, object]:
    return {
        "name": "django",
        "version": "5.2.1",
        "vulns": [{"id": "CVE-1", "fix_versions": ["5.2.2"]}],
        **changes,
    }


CLEAN = {"name": "idna", "version": "3.20", "vulns": []}
UNKNOWN = {"name": "six", "skip_reason": "Dependency not found"}


@pytest.mark.parametrize(
    ("packages", "code", "says"),
    [
        ([CLEAN], 0, "1 packages looked up, no known vulnerability"),
        ([CLEAN, hole()], 1, "django 5.2.1: CVE-1, mended in 5.2.2"),
        ([CLEAN, UNKNOWN], 2, "NOT AUDITED: 1 of 2 packages are not in the database that answers here (six)"),
        ([hole(), UNKNOWN], 1, "NOT AUDITED: 1 of 2"),
        ([], 2, "NOT AUDITED"),
    ],
)
def test_what_was_not_looked_up_is_not_clean(packages: list[dict[str, object]], code: int, says: str) -> None:
    ended, lines = audit.judge({"dependencies": packages})
    assert ended == code
    assert says in "\n".join(lines)


def test_an_audit_out_of_reach_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = tmp_path / "requirements.lock"
    lock.write_text(f"six==1.17.0 --hash=sha256:{'0' * 64}\n")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    ran = subprocess.run(
        [sys.executable, "-m", "tests.audit", str(lock)], cwd=ROOT, capture_output=True, text=True
    )
    assert ran.returncode == 2
    assert ran.stderr.startswith("NOT AUDITED: the database can't be reached: ")
