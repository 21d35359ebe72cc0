"""Due cards on their way out: claimed together, sent side by side, settled together. Used by deliveries alone.

A worker spends its time waiting for platforms and for the database; one that takes many cards at once waits for all of
them together. What is not begun within a second is given back, so that a platform that is silent or slow keeps nobody
else's card: each batch holds on to its own calls only.
"""

import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import TypeAlias
from uuid import UUID

import structlog

from channels_app import bots
from channels_app.adapters.base import Adapter, AdapterError, Handle, TokenStore
from channels_app.cards import Card, hide_body
from channels_app.models import App, Delivery
from channels_app.outbox import buckets, circuits, claims
from channels_app.outbox.claims import Failed, Job, Sent
from channels_app.tokens import AppTokens, KnownToken, TokenNeeded
from portal.lib import clock
from portal.lib.composed import Composed, Parameter
from portal.lib.crypto import DecryptionFailed
from portal.lib.http import ForbiddenAddress
from portal.lib.problems import Problem
from portal.observe import outages

# So many cards are taken at once, and so many calls are under way at the same time.
BATCH = 40
THREADS = 10
# Seconds. A call that has not begun by then is left to another worker.
BEGIN = 1.0
# A platform's own window is not used to the last second.
REPEAT_MARGIN = 120
# How long the end of a call is kept in hand while the database is away; less than the row's lease.
SETTLE_SECONDS = 30.0
_TO_SEND = claims.due(Parameter("now")).select_related("channel__app", "channel__organization")
_ONE = Composed(_TO_SEND.filter(pk=Parameter("id")))
# Refusals of our own, which say nothing about the platform.
NOT_ASKED = {"channel_unusable", "forbidden_address", "internal", "token_busy"}

# How a call ended, why it must begin again, or that it was not begun.
Outcome: TypeAlias = Sent | Failed | TokenNeeded | None

log = structlog.get_logger(__name__)


def bring(ids: Collection[UUID]) -> int:
    """Bring those of the rows that are due to their platforms. Returns how many calls were made.

    Never raises for what a platform did; an owner's error comes when all other rows are settled.
    """
    rows = _read(ids)
    return sum(_bring(batch) for batch in _batches(rows))


def _read(ids: Collection[UUID]) -> list[Delivery]:
    now = clock.now()
    if len(ids) == 1:
        return _ONE.rows(id=next(iter(ids)), now=now)
    rows = list(
        claims.due(now)
        .filter(pk__in=ids)
        .select_related("channel__app", "channel__organization")
        .order_by("created_at", "pk")
    )
    # One object per app: a token that is fetched for one of its cards is there for the others.
    apps: dict[UUID, App] = {}
    for row in rows:
        row.channel.app = apps.setdefault(row.channel.app_id, row.channel.app)
    return rows


def _batches(rows: Sequence[Delivery]) -> Iterator[list[Delivery]]:
    """What may be claimed together. A worker that dies leaves doubt about all that it claimed, which a platform that
    knows no keys can't resolve: there each card is claimed just before its call."""
    together = [row for row in rows if row.handle or _repeat_seconds(row)]
    if together:
        yield together
    for row in rows:
        if row not in together:
            yield [row]


def _platform(row: Delivery) -> type[Adapter] | None:
    """Who speaks for the row's channel; ``None`` where nobody can, which the call will say."""
    try:
        platform = bots.adapter_class(row.channel.type)
    except Problem:
        return None
    return platform if issubclass(platform, Adapter) else None


def _repeat_seconds(row: Delivery) -> int:
    """For how long after a doubtful send the platform recognizes the same key."""
    platform = _platform(row)
    return max(platform.repeat_seconds - REPEAT_MARGIN, 0) if platform else 0


def _bring(rows: Sequence[Delivery]) -> int:
    turn = _take_turns([row for row in rows if circuits.admits(row.channel.app)])
    jobs = claims.claim([(row, _repeat_seconds(row)) for row in turn])
    claimed = {job.delivery.pk for job in jobs}
    for row in turn:
        if row.pk not in claimed:
            circuits.release(row.channel.app)
    return _Batch(jobs).perform()


def _take_turns(rows: Sequence[Delivery]) -> list[Delivery]:
    """Those whose bucket has a call for them, which is taken; the others are put off until it is their turn."""
    lines = claims.lines(rows)
    taken: Counter[tuple[UUID, str]] = Counter()
    turn = []
    for row in rows:
        wait = _hold_back(row, lines, taken)
        if wait:
            claims.postpone(row.pk, seconds=wait)
            circuits.release(row.channel.app)
        else:
            turn.append(row)
    return turn


def _hold_back(row: Delivery, lines: claims.Lines, taken: "Counter[tuple[UUID, str]]") -> float:
    """Take the call from its bucket: 0, or the seconds until it is this row's turn. ``taken`` counts this batch's."""
    platform = _platform(row)
    if platform is None:
        return 0.0
    app = str(row.channel.app_id)
    if row.handle:
        bucket = (platform.update_rate, "update", app, row.message_id)
        return 0.0 if buckets.take(*bucket) else buckets.wait(*bucket)
    # Oldest first: a card is not sent in the place of an older one that is due, or whose turn comes in this window.
    bucket = (platform.send_rate, "send", app, row.recipient)
    whose = (row.channel.app_id, row.recipient)
    now = clock.now()
    soon = now + buckets.window(platform.send_rate)
    line = [one for one in lines.get(whose, ()) if one.created_at < row.created_at]
    # A card that waits after an error has its own time, which may be long: it keeps nobody behind it.
    waiting = sum(one.last_error is None for one in line) - taken[whose]
    first = sum(one.due_at <= (now if one.last_error else soon) for one in line) - taken[whose]
    if buckets.take(*bucket, behind=max(first, 0)):
        taken[whose] += 1
        return 0.0
    return buckets.wait(*bucket, behind=max(waiting, 0))


class _Batch:
    """Claimed rows: their calls, and what comes of each. The database is touched by the caller's thread alone."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._waiting = {job.delivery.pk: job for job in jobs}
        self._futures: dict[UUID, Future[None]] = {}
        self._ended: SimpleQueue[tuple[Job, Outcome]] = SimpleQueue()
        self._sent: list[Sent] = []
        self._unbegun: list[Job] = []
        self._made = 0
        # Apps whose platform has just turned out to be away: their other calls are not begun.
        self._away: set[UUID] = set()
        # A token took so long that no other is fetched.
        self._held_up = False
        self._broken: Exception | None = None

    def perform(self) -> int:
        """Call the platforms, outside any transaction, and settle every row. Returns how many calls were made.

        Raises what an owner raised when it was told of a lost card; all other rows are settled then.
        """
        if len(self._waiting) == 1:
            (job,) = self._waiting.values()
            self._take(_call(job, AppTokens(job.delivery.channel.app)))
        elif self._waiting:
            pool = ThreadPoolExecutor(min(THREADS, len(self._waiting)))
            try:
                self._call_together(pool)
            finally:
                pool.shutdown(cancel_futures=True)
        self._settle()
        if self._broken:
            raise self._broken
        return self._made

    def _call_together(self, pool: ThreadPoolExecutor) -> None:
        for job in self._waiting.values():
            self._submit(pool, job)
        last_begin: float | None = time.monotonic() + BEGIN
        while self._waiting:
            try:
                job, outcome = self._ended.get(timeout=last_begin and max(last_begin - time.monotonic(), 0))
            except Empty:
                last_begin = None
                self._begin_no_more()
                self._settle()
                continue
            if outcome is None:
                self._leave(job)
            elif isinstance(outcome, TokenNeeded):
                self._fetch_token(pool, job, outcome)
            else:
                self._take(outcome)
            if last_begin is None:
                # What took its time has waited long enough.
                self._settle()

    def _submit(self, pool: ThreadPoolExecutor, job: Job) -> None:
        self._futures[job.delivery.pk] = pool.submit(copy_context().run, self._work, job)

    def _work(self, job: Job) -> None:
        app = job.delivery.channel.app
        outcome: Outcome = None
        try:
            if app.pk not in self._away:
                outcome = _call(job, KnownToken(app))
        except TokenNeeded as needed:
            outcome = needed
        except BaseException as error:  # noqa: BLE001  # whatever foreign code raises, somebody waits for its end
            outcome = Failed(job, _internal(job, error), 0)
        if isinstance(outcome, Failed) and outcome.error.away:
            self._away.add(app.pk)
        self._ended.put((job, outcome))

    def _fetch_token(self, pool: ThreadPoolExecutor, job: Job, needed: TokenNeeded) -> None:
        """Fetch the token that a call has missed, once for all calls of its app, and begin the call again.

        A platform that is silent here holds everybody up: it does so once, and is not asked for a second card.
        """
        app = job.delivery.channel.app
        if app.pk not in self._away and _is_known(app, needed):
            self._submit(pool, job)
            return
        if app.pk in self._away or self._held_up:
            self._leave(job)
            return
        # Another worker may be at it, and slow.
        self._settle()
        began = time.monotonic()
        error = _renew_token(job, needed)
        self._held_up = time.monotonic() - began > BEGIN
        if error is None:
            self._submit(pool, job)
            return
        if error.away:
            self._away.add(app.pk)
        self._take(Failed(job, error, _since(began)))

    def _take(self, outcome: Sent | Failed) -> None:
        """One call has ended."""
        row = outcome.job.delivery
        self._made += 1
        del self._waiting[row.pk]
        if isinstance(outcome, Sent):
            self._sent.append(outcome)
            return
        log.warning(
            "delivery.refused",
            delivery=str(row.pk),
            topic=row.topic,
            channel=row.channel.slug,
            code=outcome.error.code,
        )
        try:
            outages.persist(partial(_settle_error, outcome), seconds=SETTLE_SECONDS)
        except Exception as broken:  # noqa: BLE001  # raised when the other rows are safe
            self._broken = self._broken or broken

    def _begin_no_more(self) -> None:
        for job in list(self._waiting.values()):
            if self._futures[job.delivery.pk].cancel():
                self._leave(job)

    def _leave(self, job: Job) -> None:
        del self._waiting[job.delivery.pk]
        self._unbegun.append(job)

    def _settle(self) -> None:
        """Write down what has come of the calls so far."""
        sent, self._sent = self._sent, []
        unbegun, self._unbegun = self._unbegun, []
        if sent:
            outages.persist(partial(claims.settle_ok, sent), seconds=SETTLE_SECONDS)
        for one in sent:
            circuits.worked(one.job.delivery.channel.app)
        if unbegun:
            outages.persist(partial(claims.give_back, unbegun), seconds=SETTLE_SECONDS)
        for job in unbegun:
            circuits.release(job.delivery.channel.app)


def _settle_error(failed: Failed) -> None:
    app, error = failed.job.delivery.channel.app, failed.error
    claims.settle_error(failed)
    if error.away:
        circuits.failed(app, wish=error.retry_after)
    elif error.code in NOT_ASKED:
        circuits.release(app)
    else:
        circuits.worked(app)


def _since(began: float) -> int:
    return int((time.monotonic() - began) * 1000)


def _call(job: Job, tokens: TokenStore) -> Sent | Failed:
    """Make one call. Raises :class:`TokenNeeded` where ``tokens`` does, and nothing else."""
    began = time.monotonic()
    try:
        handle, hidden = _show(job, tokens)
    except AdapterError as error:
        return Failed(job, error, _since(began))
    return Sent(job, handle, hidden, _since(began))


def _show(job: Job, tokens: TokenStore) -> tuple[Handle | None, bool]:
    """Send or update the card: the new handle, and whether it went without its body. Raises :class:`AdapterError`."""
    channel = job.delivery.channel
    reason = bots.usable(channel)
    if reason:
        raise AdapterError("channel_unusable", reason, permanent=True)
    try:
        adapter = bots.open_adapter(channel, tokens)
        if job.delivery.body_hidden:
            return _act(adapter, job, hide_body(job.card)), True
        try:
            return _act(adapter, job, job.card), False
        except AdapterError as error:
            if not (error.hide_body and job.card.body):
                raise
            return _act(adapter, job, hide_body(job.card)), True
    except (Problem, ForbiddenAddress, DecryptionFailed) as error:
        raise AdapterError("channel_unusable", str(error), permanent=True) from error
    except (AdapterError, TokenNeeded):
        raise
    except Exception as error:
        raise _internal(job, error) from error


def _is_known(app: App, needed: TokenNeeded) -> bool:
    """Whether the token has come since, with another card of the app."""
    try:
        KnownToken(app).get(needed.fetch, stale=needed.stale)
    except TokenNeeded:
        return False
    return True


def _renew_token(job: Job, needed: TokenNeeded) -> AdapterError | None:
    """Fetch the token that a call in a thread has missed: the error, if there was one."""
    try:
        AppTokens(job.delivery.channel.app).get(needed.fetch, stale=needed.stale)
    except AdapterError as error:
        return error
    except Exception as error:  # noqa: BLE001  # told as an adapter's defect
        return _internal(job, error)
    return None


def _internal(job: Job, error: BaseException) -> AdapterError:
    """An adapter's own defect: it must not lose the card, nor its place in the queue."""
    row = job.delivery
    log.error("adapter.broke", channel=row.channel.slug, topic=row.topic, exc_info=error)
    return AdapterError("internal", type(error).__name__, permanent=False, unknown=job.is_send)


def _act(adapter: Adapter, job: Job, card: Card) -> Handle | None:
    row = job.delivery
    if job.is_send:
        return adapter.send(row.recipient, card, row.ref, key=f"hg-{row.pk}")
    more = {name: value for name, value in row.handle.items() if name not in {"message_id", "chat_id"}}
    adapter.update(Handle(row.message_id, row.chat_id, more), card, row.ref)
    return None
