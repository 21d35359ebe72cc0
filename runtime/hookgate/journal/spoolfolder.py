"""Where the call log's spool lies, and that nobody else can write there."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from pathlib import Path
from typing import Final, NamedTuple

_SLUG: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")


class SpoolFailed(Exception):
    """The spool can't take an entry. The text names the folder or file and the remedy."""


class Owner(NamedTuple):
    """Whose entries they are: one agent's. ``organization`` is its slug; where no registry has named it
    yet, ``@`` and a digest of the runtime key, which belongs to one organization too."""

    organization: str
    agent: str

    @classmethod
    def of_key(cls, key: str, agent: str) -> Owner:
        """The owner as long as nothing but the key is known."""
        return cls(f"@{_digest(key)}", agent)


def choose(given: str | os.PathLike[str] | None) -> tuple[Path, bool]:
    """The spool's root, and whether somebody named it: ``given``, else ``HOOKGATE_SPOOL_DIR``, else the
    user's state folder (``XDG_STATE_HOME``, ``~/.local/state``) where that can be written, else one in the
    temporary folder with the user's id in its name."""
    named = given or os.environ.get("HOOKGATE_SPOOL_DIR")
    if named:
        return Path(os.path.expanduser(named)).absolute(), True
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    # Without a home `~` stays as it is, and a relative path would be another one after a chdir.
    if os.path.isabs(state):
        root = Path(state) / "hookgate"
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            pass
        else:
            if os.access(root, os.W_OK | os.X_OK):
                return root, True
    # Imports a good deal, and is hardly ever asked.
    import tempfile

    return Path(tempfile.gettempdir()) / f"hookgate-{os.geteuid()}", False


def place(root: Path, portal: str, owner: Owner) -> Path:
    """The folder of one agent's files. ``portal`` is its origin."""
    return root / _digest(portal) / _name(owner.organization) / _name(owner.agent)


def prepare(root: Path, folder: Path, *, named: bool) -> None:
    """Make ``folder`` below ``root`` with mode 0700. Raises SpoolFailed where somebody else could write.

    A ``root`` that somebody ``named`` may be a link and belong to another user (a mounted volume); one in
    the shared temporary folder may not: whoever was there first could have planted it.
    """
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_root(root, named)
        part = root
        for name in folder.relative_to(root).parts:
            part /= name
            part.mkdir(mode=0o700, exist_ok=True)
            _check_own(part)
    except OSError as error:
        raise explain(root, error) from None


def explain(root: Path, error: OSError) -> SpoolFailed:
    """What went wrong, in words that say what to do."""
    return SpoolFailed(
        f"the call log's spool in {root} can't be written ({error.strerror or error}); free space there or "
        "give this user the right to write, or name another folder (Runtime(spool=…) or HOOKGATE_SPOOL_DIR)"
    )


def _check_root(root: Path, named: bool) -> None:
    if not named:
        _check_own(root)
        return
    mode = root.stat().st_mode
    if not stat.S_ISDIR(mode):
        raise NotADirectoryError(20, "not a folder", str(root))
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise SpoolFailed(f"everybody may write to {root}; take that right away (chmod o-w {root})")


def _check_own(folder: Path) -> None:
    facts = folder.lstat()
    ours = stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid()
    if ours and facts.st_mode & 0o055 and not facts.st_mode & 0o022:
        raise SpoolFailed(
            f"others may read {folder}, where arguments of calls are kept; take that right away (chmod 700 {folder})"
        )
    if not ours or facts.st_mode & 0o022:
        raise SpoolFailed(
            f"{folder} is a link, somebody else's, or open to others; it may have been planted there. Remove "
            "it, or name another folder for the spool (Runtime(spool=…) or HOOKGATE_SPOOL_DIR)"
        )


def _name(text: str) -> str:
    """A text as a folder's name. What isn't a slug becomes its digest: no text may lead out of the folder."""
    if _SLUG.fullmatch(text.removeprefix("@")):
        return text
    return f"~{_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
