"""The long form installs from the package index, for minutes: only in `make soak`."""

from tests.soak import counts

collect_ignore = [] if counts.SOAK else ["test_full.py"]
