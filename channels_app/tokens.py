"""One access token per app, shared by every worker.

The token is on the app's row, encrypted. A lease column lets one worker fetch a new one; the others wait for it. The
platform is asked outside any transaction.
"""

import time
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q

from channels_app.adapters.base import AdapterError, TokenFetch
from channels_app.models import App
from portal.lib import clock

# Seconds. A fetch takes at most one HTTP time-out; whoever dies during it is replaced after the lease.
LEASE = 15.0
WAIT = 20.0
POLL = 0.05
# A token is renewed so long before its end that none expires on its way: 5 minutes, or a tenth of a short life.
MARGIN = 300.0


def _refuse() -> tuple[str, float]:
    raise AdapterError("token_busy", "another worker could not get the access token", permanent=False)


class TokenNeeded(Exception):
    """The known token is missing or no longer good; ``fetch`` and ``stale`` as in :class:`TokenStore`."""

    def __init__(self, fetch: TokenFetch, stale: str | None) -> None:
        super().__init__("a new access token must be fetched")
        self.fetch = fetch
        self.stale = stale


class KnownToken:
    """A :class:`~channels_app.adapters.base.TokenStore` for threads that may not touch the database."""

    def __init__(self, app: App) -> None:
        self._app = app

    def get(self, fetch: TokenFetch, *, stale: str | None = None) -> str:
        """Return the token that the app's row was read with. Raises :class:`TokenNeeded` where that won't do."""
        known = _good(self._app.token, self._app.token_expires_at, stale)
        if known is None:
            raise TokenNeeded(fetch, stale)
        return known


class AppTokens:
    """The :class:`~channels_app.adapters.base.TokenStore` of one app's row."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._row = App.objects.filter(pk=app.pk)

    def get(self, fetch: TokenFetch, *, stale: str | None = None) -> str:
        """Return a token that is not ``stale``; fetch one if need be, and keep it in the app's row and object.

        Raises :class:`AdapterError`.
        """
        # Read together with what is to be sent, a moment ago.
        known = _good(self._app.token, self._app.token_expires_at, stale)
        if known:
            return known
        give_up = time.monotonic() + WAIT
        waited = False
        while time.monotonic() < give_up:
            found = self._stored(stale)
            if found:
                return found
            if self._lease():
                # Who waited for a fetch in vain would only run into the same time-out, and hold its worker as long.
                return self._stored_or_fetched(_refuse if waited else fetch, stale)
            waited = True
            time.sleep(POLL)
        raise AdapterError("token_busy", "another worker is fetching the access token", permanent=False)

    def _stored(self, stale: str | None) -> str | None:
        self._app.token, self._app.token_expires_at = self._row.values_list("token", "token_expires_at").get()
        return _good(self._app.token, self._app.token_expires_at, stale)

    def _lease(self) -> bool:
        now = clock.now()
        free = Q(token_lease_until__isnull=True) | Q(token_lease_until__lte=now)
        return bool(self._row.filter(free).update(token_lease_until=now + timedelta(seconds=LEASE)))

    def _stored_or_fetched(self, fetch: TokenFetch, stale: str | None) -> str:
        try:
            # Between the look and the lease another worker may have finished.
            found = self._stored(stale)
            if found:
                return found
            token, seconds = fetch()
            until = clock.now() + timedelta(seconds=seconds - min(MARGIN, seconds / 10))
            self._row.update(token=token, token_expires_at=until)
            self._app.token, self._app.token_expires_at = token, until
        finally:
            self._row.update(token_lease_until=None)
        if token == stale:
            raise AdapterError(
                "token_refused", "the platform issues a token that it calls invalid", permanent=False
            )
        return token


def _good(token: Any, until: datetime | None, stale: str | None) -> str | None:
    """The token when it may be used, else ``None``."""
    good = token is not None and token != stale and until is not None and until > clock.now()
    return str(token) if good else None
