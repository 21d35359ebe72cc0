"""A platform that is away is asked by one worker at a time, so that its time-outs hold up nobody else's cards.

One circuit per app, in the app's row, shared by every worker. It opens with the first call that finds the platform
away: refused, silent, or broken (5xx). From then on the app's deliveries stay due and are left alone, and after a rest
one of them is tried; the rest doubles with each failure up to ``LONGEST``. The first success closes the circuit, and
the next sweep sends everything. The only writer of these three columns.
"""

from datetime import timedelta

import structlog
from django.db.models import Q
from django.db.models.functions import Coalesce

from channels_app.models import App
from portal.lib import clock

# Seconds between tries: the first rest, and the longest. A platform that wishes for more patience gets it.
FIRST = 1.0
LONGEST = 30.0
LONGEST_WISH = 3600.0
# Seconds that the one try may take; a worker that dies in it is replaced after that.
TRY = 60.0

log = structlog.get_logger(__name__)


def resting(prefix: str = "") -> Q:
    """The apps that are to be left alone now; ``prefix`` leads to them from another model (``channel__app__``)."""
    return Q(**{f"{prefix}rest_until__gt": clock.now()})


def admits(app: App) -> bool:
    """Whether one call to ``app`` may begin now. While its circuit is open, a yes takes the place of the one try."""
    if app.rest_until is None:
        return True
    now = clock.now()
    free = App.objects.filter(pk=app.pk, rest_until__lte=now)
    if free.update(rest_until=now + timedelta(seconds=TRY)):
        return True
    # Closed since the row was read?
    return App.objects.filter(pk=app.pk, rest_until__isnull=True).exists()


def failed(app: App, *, wish: float | None) -> None:
    """A call found the platform away; ``wish`` is for how many seconds it wants to be left alone.

    ``app`` is the row as it was before the call: of calls that failed side by side only the first counts.
    """
    now = clock.now()
    rest = min(FIRST * 2 ** min(app.outage_tries, 10), LONGEST)
    if wish is not None:
        rest = min(max(wish, rest), LONGEST_WISH)
    opened = App.objects.filter(pk=app.pk, outage_tries=app.outage_tries).update(
        outage_tries=app.outage_tries + 1,
        outage_since=Coalesce("outage_since", now),
        rest_until=now + timedelta(seconds=rest),
    )
    if opened and app.outage_tries == 0:
        log.warning("platform.away", app=str(app.pk), type=app.type)


def worked(app: App) -> None:
    """A call got an answer: the platform is there."""
    if app.rest_until is None:
        return
    closed = App.objects.filter(pk=app.pk, rest_until__isnull=False).update(
        outage_tries=0, outage_since=None, rest_until=None
    )
    if closed:
        log.info("platform.back", app=str(app.pk), type=app.type)


def release(app: App) -> None:
    """The try that ``app``, as it was read before, admitted did not come to a call: somebody else may have it."""
    if app.rest_until is not None:
        App.objects.filter(pk=app.pk, rest_until__gt=clock.now()).update(rest_until=clock.now())
