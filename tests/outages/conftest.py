"""The channel, the owner of topics and the sandbox of the channels' tests."""

from tests.channels.conftest import _no_jitter, _running, acme, channel, owner, server

__all__ = ["_no_jitter", "_running", "acme", "channel", "owner", "server"]
