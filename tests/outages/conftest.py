"""The channel, the owner of topics and the sandbox of the channels' tests."""

from tests.channels.conftest import _buckets_by_the_clock, _no_jitter, _running, acme, channel, owner, server

__all__ = ["_buckets_by_the_clock", "_no_jitter", "_running", "acme", "channel", "owner", "server"]
