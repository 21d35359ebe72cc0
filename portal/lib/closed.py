"""Files that hold secrets are this account's alone: the embedded database (sessions sign people in) and generated keys.

What is open is closed where it is ours to close, and refused with a remedy where it isn't.
"""

import os
import stat
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

# Of a process that keeps secrets on disk: what it makes is its account's alone.
UMASK = 0o077
FOLDER = 0o700
FILE = 0o600
# What SQLite makes beside a database, with the database's own rights.
BESIDE = ("", "-wal", "-shm", "-journal")


def make_folder(path: Path) -> None:
    """A folder for secrets, made where there is none. Raises ``ImproperlyConfigured`` if others may change it."""
    try:
        path.mkdir(mode=FOLDER, parents=True, exist_ok=True)
    except FileExistsError:
        raise ImproperlyConfigured(f"{path} is no folder; name one with HOOKGATE_VAR_DIR") from None
    found = path.stat()
    if found.st_mode & stat.S_ISVTX:
        raise ImproperlyConfigured(
            f"{path} is a folder that everybody shares; set HOOKGATE_VAR_DIR to one of the portal's own"
        )
    if is_open(path) and not _close(path, FOLDER) and found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ImproperlyConfigured(
            f"others may write to {path}, where secrets are kept, and it belongs to another account; as that account:"
            f" chmod 700 {path}"
        )


def close_file(path: Path) -> None:
    """Take everybody else's rights to a file away. Raises ``ImproperlyConfigured`` where it isn't ours."""
    if is_open(path) and not _close(path, FILE):
        raise ImproperlyConfigured(
            f"others may read {path}, which holds secrets, and it belongs to another account; as that account:"
            f" chmod 600 {path}"
        )


def close_database(path: Path) -> None:
    """:func:`close_file` for a SQLite database and what stands beside it."""
    for end in BESIDE:
        close_file(Path(f"{path}{end}"))


def make_database(path: str) -> None:
    """An empty file for a new SQLite database, which SQLite would make readable to others."""
    if path.startswith(("file:", ":")) or os.path.exists(path):
        return
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, FILE))
    except OSError:
        return  # the driver says better what is wrong


def is_open(path: Path) -> bool:
    """Whether others have any right to what is there; false where nothing is."""
    try:
        return bool(path.stat().st_mode & 0o077)
    except OSError:
        return False


def _close(path: Path, mode: int) -> bool:
    try:
        path.chmod(mode)
    except OSError:
        return False
    return True
