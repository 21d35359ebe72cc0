"""``make audit``: pip-audit over the locks; nothing that was not looked up counts as clean.

pip-audit ends with 0 and "no known vulnerabilities" where its database knows none of the packages, as behind an index
that serves files alone. Exit codes here: 0 each package was looked up and none is known as vulnerable, 1 some are,
2 not (all) looked up.
"""

import json
import subprocess
import sys
from typing import Any


def judge(report: dict[str, Any]) -> tuple[int, list[str]]:
    """The exit code and the lines to print for a report of ``pip-audit --format json``."""
    found = report["dependencies"]
    skipped = [package["name"] for package in found if "skip_reason" in package]
    lines = [
        f"{package['name']} {package['version']}: {hole['id']}, "
        f"mended in {', '.join(hole['fix_versions']) or 'no release yet'}"
        for package in found
        for hole in package.get("vulns", ())
    ]
    if skipped:
        named = ", ".join(skipped[:5]) + (", …" if len(skipped) > 5 else "")
        lines.append(
            f"NOT AUDITED: {len(skipped)} of {len(found)} packages are not in the database that answers here"
            f" ({named}). Run it where the database of the public package index can be reached."
        )
        return 1 if len(lines) > 1 else 2, lines
    if lines:
        return 1, lines
    return (
        (0, [f"{len(found)} packages looked up, no known vulnerability"])
        if found
        else (2, ["NOT AUDITED: no packages"])
    )


def audit(files: list[str]) -> tuple[int, list[str]]:
    """Ask pip-audit about the packages of hashed requirements files."""
    named = [word for file in files for word in ("--requirement", file)]
    options = ["--disable-pip", "--require-hashes", "--format", "json", "--progress-spinner", "off"]
    ran = subprocess.run(
        [sys.executable, "-m", "pip_audit", *options, *named], capture_output=True, text=True
    )
    try:
        report = json.loads(ran.stdout)
    except ValueError:
        reason = (ran.stderr.strip().splitlines() or [f"exit code {ran.returncode}"])[-1]
        return 2, [f"NOT AUDITED: the database can't be reached: {reason}"]
    return judge(report)


if __name__ == "__main__":
    code, lines = audit(sys.argv[1:])
    print("\n".join(lines), file=sys.stderr if code else sys.stdout)
    sys.exit(code)
