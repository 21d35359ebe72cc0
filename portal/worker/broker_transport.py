"""Kombu's Redis transport, for workers that outlive the loss of their broker."""

from typing import Any

from kombu.transport import redis as kombu_redis
from redis.exceptions import ConnectionError as Lost
from redis.exceptions import ResponseError

from portal.lib import brokers


class Channel(kombu_redis.Channel):
    """A channel that says so when its connection is gone.

    A task that ends after the loss acknowledges its message through a transport that kombu has dropped already. By
    itself that is an ``AttributeError``, of which the whole worker dies; a lost connection is what workers handle. The
    message itself is worth nothing: the sweep finds what it was about.
    """

    def _connparams(self, asynchronous: bool = False) -> Any:
        if self.connection.client is None:
            raise Lost("the broker's connection is gone")
        return super()._connparams(asynchronous=asynchronous)  # type: ignore[misc]  # the stubs leave it out


class Transport(kombu_redis.Transport):
    """Named like the one that it stands for, in :mod:`portal.celery`. What a server says is an outage like its silence.

    By itself kombu counts a refusal (READONLY and UNBLOCKED in a failover, OOM, MASTERDOWN, NOAUTH) as our own mistake,
    of which a worker dies. Whoever connects writes first, and so waits at the pace of :mod:`portal.celery` until the
    server takes writes again.
    """

    Channel = Channel
    connection_errors = (*kombu_redis.Transport.connection_errors, ResponseError)

    def establish_connection(self) -> Any:
        """Connect to a server that takes writes, or raise one of ``connection_errors``."""
        transport: Any = self  # the stubs know little of what it holds
        connection = super().establish_connection()
        try:
            brokers.check_writable(transport._avail_channels[-1].client)
        except BaseException:
            transport.close_connection(connection)
            raise
        return connection
