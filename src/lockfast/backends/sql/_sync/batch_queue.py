# Generated from src/lockfast/backends/sql/_async/batch_queue.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""A queue of requests; one request, the carrier, sends a batch of the queued requests."""

from __future__ import annotations

import copy
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from lockfast.backends.sql import errors
from lockfast.backends.sql.turns import Progress, Turn
from lockfast.errors import BackendUnavailable, OutcomeUnknown
from lockfast.runtime import fork
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.sql._sync.transport import SqlTransport
    from lockfast.backends.sql.batch import Operation
    from lockfast.backends.sql.door_rows import Passage
    from lockfast.errors import LockError
    from lockfast.runtime.clock import Clock

# A batch of several requests, and the requests in it.

BATCH_MAX = 1_000
"""Maximum number of operations in a batch."""

BATCH_GRACE_SECONDS = 1.0
"""Extra time to wait for a batch whose deadline is no later than the request's own, in seconds. The
wait is worthwhile because the batch's error says more than a timeout would."""


E = TypeVar("E", bound="Operation | Passage")
A = TypeVar("A")


class BatchRequest(Generic[E, A]):
    """One caller's operations, each with its own `batch_key`, and later their answers."""

    __slots__ = (
        "__weakref__",
        "_answers",
        "_error",
        "deadline",
        "has_left",
        "is_answered",
        "is_under_way",
        "needs_own_batch",
        "operations",
        "patience",
        "since",
        "turn",
        "was_requeued",
        "woken",
    )

    def __init__(
        self,
        operations: Sequence[E],
        deadline: float,
        *,
        since: float = 0.0,
        turn: Turn | None = None,
    ) -> None:
        self.operations = operations
        self.deadline = deadline
        self.patience = deadline
        """When the request, once it is under way, stops waiting for its answer."""
        self.since = since
        """When the request entered the queue."""
        self.turn = turn or Turn()
        self.woken = runtime.WakeEvent()
        self.is_under_way = False
        self.is_answered = False
        self.has_left = False
        self.needs_own_batch = False
        self.was_requeued = False
        self._answers: list[A] = []
        self._error: Exception | None = None

    @property
    def waits(self) -> bool:
        """Whether the request is in the queue."""
        return not (self.is_under_way or self.is_answered or self.has_left)

    def begin(self, deadline: float) -> None:
        """Mark the request as under way in a batch with this deadline."""
        self.is_under_way = True
        if deadline <= self.deadline:
            self.patience = self.deadline + BATCH_GRACE_SECONDS

    def requeue(self, *, alone: bool) -> None:
        """Mark the request as queued again, because its batch ended without doing anything for it.

        With `alone`, the next batch contains no other request.
        """
        self.needs_own_batch = alone
        self.was_requeued = True
        self.is_under_way = False
        self.patience = self.deadline
        self.woken.set()

    def deliver(self, answers: list[A], turn: Turn) -> None:
        """Deliver the answers, and record in `self.turn` when the batch got its connection."""
        self._answers = answers
        self.turn.started_at = turn.started_at
        self._end()

    def fail(self, error: Exception) -> None:
        """Deliver the error because of which the operations failed or their outcome is unknown."""
        self._error = error
        self._end()

    def _end(self) -> None:
        self.is_answered = True
        self.woken.set()

    def give_up(self, *, where: str) -> LockError:
        """Mark that the caller has left, and return the error to raise."""
        self.has_left = True
        if self.is_under_way:
            return errors.unanswered("no answer in time", where=where)
        return errors.no_time(where=where)

    def answer(self) -> list[A]:
        """Return the answer to each operation, or raise the error of the batch."""
        if self._error is None:
            return self._answers
        # Raise a copy, because one exception object that many callers raise would collect all of
        # their tracebacks.
        raise copy.copy(self._error) from self._error.__cause__


class Batch(Generic[E, A]):
    """Requests that are sent together; one of them is the carrier.

    Only the frames of the call that sends the batch keep the batch alive, so it ends with that
    call.
    """

    __slots__ = (
        "__weakref__",
        "deadline",
        "is_over",
        "is_plain",
        "name",
        "requests",
        "since",
        "turn",
        "where",
    )

    def __init__(
        self, name: str | None, *, since: float, where: str, turn: Turn | None = None
    ) -> None:
        self.is_over = False
        self.is_plain = True
        self.turn = turn or Turn()
        self.requests: list[BatchRequest[E, A]] = []
        self.where = where
        self.since = since
        self.deadline = since
        self.name = name
        """The name of the batch's first operation, if the batch may wait for a transaction that has
        locked that name; otherwise None."""

    def fill(
        self,
        carrier: BatchRequest[E, A],
        waiting: Sequence[BatchRequest[E, A]],
        *,
        enough: int = BATCH_MAX,
    ) -> None:
        """Add the carrier, and the queued requests that can be sent together with the carrier.

        A thread that carries other requests cannot leave before they have their answers, so the
        carrier's deadline counts for the whole batch. A request that would lose more than half of
        its own time because of that waits for the next batch. So does a request with a `batch_key`
        that is already in this batch.
        """
        self.deadline = carrier.deadline
        self.is_plain = carrier.needs_own_batch
        self.name = carrier.operations[0].claim.name if self.is_plain else None
        names, count = set[str](), 0
        latest = self._ends_for(carrier) + (self._ends_for(carrier) - self.since)
        for one in (carrier, *waiting):
            wanted = {operation.batch_key for operation in one.operations}
            goes = one.waits and names.isdisjoint(wanted)
            if one is not carrier:
                in_time = self.since < self._ends_for(one) <= latest
                goes = goes and in_time and not (self.is_plain or one.needs_own_batch)
            if goes:
                names |= wanted
                count += len(wanted)
                self.requests.append(one)
                one.begin(self.deadline)
            if count >= enough:
                break

    def _ends_for(self, one: BatchRequest[E, A]) -> float:
        """Return when the request's turn would end if the turn began now."""
        return Turn(self.turn.patience).come(self.since, deadline=one.deadline)

    @property
    def operations(self) -> list[E]:
        """The operations of all requests."""
        return [operation for one in self.requests for operation in one.operations]

    def deliver(self, answers: Sequence[A]) -> None:
        """Deliver to each request its share of the answers, which are in `operations` order."""
        begin = 0
        for one in self.requests:
            end = begin + len(one.operations)
            one.deliver(list(answers[begin:end]), self.turn)
            begin = end

    def fail(self, error: Exception) -> None:
        """Fail all requests of the batch with the error."""
        for one in self.requests:
            one.fail(error)

    def end(self) -> None:
        """Mark the batch as ended; requests that have no answer yet get OutcomeUnknown."""
        self.is_over = True
        left = [one for one in self.requests if one.is_under_way and not one.is_answered]
        if left:
            ended = "whoever asked for several at once was interrupted"
            error = errors.unanswered(ended, where=self.where)
            for one in left:
                one.fail(error)
        self.requests = []  # the requests' errors reference the frames that keep this batch alive

    def __del__(self) -> None:
        # `requests` is missing if an interrupt struck in the constructor.
        if getattr(self, "requests", None):
            self.end()


# The queue of requests, and how one request carries the others.
#
# A request that comes while enough batches are under way is queued. When one of those batches
# returns, one of the queued requests becomes the carrier, and sends the next batch with the other
# queued requests. A request that comes while nothing is under way is sent at once, by the caller's
# own task or thread.

BATCH_POLL_SECONDS = 0.1
"""Poll interval of a queued request, in seconds. The request polls because an interrupt may have
struck the call that should have woken the request."""

SHORT_QUEUE = 32
"""Queue length up to which every request polls every BATCH_POLL_SECONDS. In a longer queue each
request polls less often, so that the total number of polls stays the same. Thousands of tasks that
woke up ten times a second would leave no time for the work that they wait for."""


class BatchQueue(Generic[E, A]):
    """One queue of requests; a subclass defines how to do operations, and how many at a time."""

    _enough: ClassVar[int] = BATCH_MAX
    """Maximum number of operations in a batch."""
    _most: ClassVar[int]
    """Maximum number of batches under way at the same time."""
    _stale_after: ClassVar[float]
    """How long a batch under way counts towards the maximum `_most`, in seconds."""

    def __init__(self, transport: SqlTransport[Any], *, clock: Clock) -> None:
        self._transport = transport
        self._where = transport.where
        self._clock = clock
        self._begin()

    def _begin(self) -> None:
        self._state = runtime.StateLock()
        # These three attributes have only weak references. A batch is kept alive by its carrier's
        # frames, and a queued request by its own frames. If an interrupt ends those frames, the
        # queue must no longer count on the batch or the request.
        self._under_way: list[weakref.ref[Batch[E, A]]] = []
        self._queue: list[weakref.ref[BatchRequest[E, A]]] = []
        self._called: weakref.ref[BatchRequest[E, A]] | None = None
        self._progress = Progress()
        self._rounds = runtime.Ticker(BATCH_POLL_SECONDS)
        self._tasks: list[runtime.Task] = []

    @property
    def _patience(self) -> float | None:
        """How long a request may take once it has its turn, in seconds; see `turns`."""
        return self._transport.request_timeout

    # -- what a subclass defines -------------------------------------------------------

    def _do_one(self, operations: Sequence[E], deadline: float, turn: Turn) -> list[A]:
        """Do the operations of one request."""
        raise NotImplementedError

    def _do_batch(self, operations: Sequence[E], deadline: float, turn: Turn) -> list[A]:
        """Do the operations of several requests, all of them or none."""
        raise NotImplementedError

    def _do(self, operations: Sequence[E], deadline: float, turn: Turn | None = None) -> list[A]:
        """Return the answer to each operation, and record in `turn` when they all were sent."""
        turn = turn or Turn(self._patience)
        batch = self._own_batch(operations[0].claim.name, turn)
        if batch is None:
            since = self._clock.now()
            return self._with_others(BatchRequest(operations, deadline, since=since, turn=turn))
        try:
            answers = self._do_one(operations, deadline, turn)
        except (BackendUnavailable, OutcomeUnknown):
            self._progress.failed(self._clock.now())
            raise
        else:
            self._progress.answered(self._clock.now())
            return answers
        finally:
            batch.is_over = True
            self._call_next()

    # -- in the queue ------------------------------------------------------------------

    def _with_others(self, request: BatchRequest[E, A]) -> list[A]:
        with self._state:
            may_go = not self._queue  # otherwise a queued request would have been sent already
            self._queue.append(weakref.ref(request))
        try:
            while not request.is_answered:
                batch = self._next_batch(request) if may_go else None
                if batch is not None:
                    work = partial(self._run_batch, batch)
                    del batch  # from here on only `work` keeps it alive
                    self._keep(
                        runtime.run_for_all(work, name="lockfast-together", ended=request.woken)
                    )
                    del work
                left = self._time_of(request)
                look_in = BATCH_POLL_SECONDS * max(1.0, len(self._queue) / SHORT_QUEUE)
                if left > look_in == BATCH_POLL_SECONDS:
                    request.woken.wait(self._rounds.timeout_for(request.woken))
                else:
                    request.woken.wait(min(left, look_in))
                request.woken.clear()
                may_go = True
        finally:
            self._leave(request)
        return request.answer()

    def _time_of(self, request: BatchRequest[E, A]) -> float:
        """Return how long the request may still wait; raise if its time is up."""
        ends_at = request.patience
        if not request.is_under_way:
            ends_at = self._progress.ends_at(
                since=request.since, patience=self._patience, deadline=request.deadline
            )
        left = ends_at - self._clock.now()
        if left <= 0:
            with self._state:
                if not request.is_answered:
                    raise request.give_up(where=self._where)
        return max(0.0, left)

    def _leave(self, request: BatchRequest[E, A]) -> None:
        if request.is_answered:
            return  # a batch contained the request, so it is not queued
        with self._state:
            is_carried = request.is_under_way
            request.has_left = True
        if not is_carried:
            self._call_next()  # the request may have been called to carry a batch

    def _call_next(self) -> None:
        """If a batch may be sent, call the queued request with the latest deadline to carry it."""
        if not self._queue:
            return
        with self._state:
            requests = self._waiting()
            if requests and self._called_one() is None and not self._is_full(self._clock.now()):
                chosen = max(requests, key=lambda one: one.deadline)
                self._called = weakref.ref(chosen)
                chosen.woken.set()

    def _called_one(self) -> BatchRequest[E, A] | None:
        """Return the request that was called to carry a batch and has not done so yet.

        New requests wait until the called request has sent its batch.
        """
        request = None if self._called is None else self._called()
        return request if request is not None and request.waits else None

    def _waiting(self) -> list[BatchRequest[E, A]]:
        """Return the queued requests in order, after dropping requests that no longer wait."""
        requests, refs = list[BatchRequest[E, A]](), list[weakref.ref[BatchRequest[E, A]]]()
        for ref in self._queue:
            one = ref()
            if one is not None and one.waits:
                requests.append(one)
                refs.append(ref)
        self._queue = refs
        return requests

    # -- under way ---------------------------------------------------------------------

    def _own_batch(self, name: str, turn: Turn) -> Batch[E, A] | None:
        """Return a batch for one request; None if the request has to be queued.

        The request is queued if other requests are queued, if enough batches are under way, or if
        one of these batches has the same name.
        """
        with self._state:
            if self._queue:
                return None
            now, names = self._clock.now(), [one.name for one in self._live()]
            if names and (name in names or self._is_full(now)):
                return None
            return self._register(Batch(name, since=now, where=self._where, turn=turn))

    def _next_batch(self, carrier: BatchRequest[E, A]) -> Batch[E, A] | None:
        """Return a batch of the carrier and other queued requests; None if no batch may be sent."""
        with self._state:
            called = self._called_one()
            is_its_turn = carrier.waits and (called is None or called is carrier)
            now = self._clock.now()
            if not is_its_turn or now >= carrier.deadline or self._is_full(now):
                return None
            turn = Turn(self._patience)
            batch = self._register(Batch(None, since=now, where=self._where, turn=turn))
            batch.fill(carrier, self._waiting(), enough=self._enough)
            self._waiting()
        return batch

    def _live(self) -> list[Batch[E, A]]:
        """Return the batches under way."""
        return [one for ref in self._under_way if (one := ref()) and not one.is_over]

    def _is_full(self, now: float) -> bool:
        """Return whether enough batches are under way."""
        return sum(now - one.since < self._stale_after for one in self._live()) >= self._most

    def _register(self, batch: Batch[E, A]) -> Batch[E, A]:
        self._under_way = [*map(weakref.ref, self._live()), weakref.ref(batch)]
        return batch

    def _run_batch(self, batch: Batch[E, A]) -> None:
        """Do the operations of all requests, and deliver the answers."""
        operations, deadline, turn = batch.operations, batch.deadline, batch.turn
        try:
            if batch.is_plain:
                batch.deliver(self._do_one(operations, deadline, turn))
            else:
                batch.deliver(self._do_batch(operations, deadline, turn))
            self._progress.answered(self._clock.now())
        except BackendUnavailable as error:
            self._progress.failed(self._clock.now())
            self._requeue(batch, error, alone=False)
        except OutcomeUnknown as error:
            self._progress.failed(self._clock.now())
            batch.fail(error)
        except Exception as error:  # noqa: BLE001 - the waiting requests raise it
            if batch.is_plain:
                batch.fail(error)
            else:
                self._requeue(batch, error, alone=True)
        finally:
            batch.end()
            self._call_next()

    def _requeue(self, batch: Batch[E, A], error: Exception, *, alone: bool) -> None:
        """Queue each request of a batch that did nothing again.

        With `alone`, each gets a batch of its own, because the server refused the whole batch,
        perhaps because of a single request in it.

        Otherwise the batch was not answered. Without a second attempt, a single batch that a busy
        machine could not finish would fail all of its requests. There is only one such attempt, and
        only if requests have their own timeout.
        """
        with self._state:
            for one in batch.requests:
                if not alone and (self._patience is None or one.was_requeued):
                    one.fail(error)
                else:
                    self._queue.append(weakref.ref(one))
                    one.requeue(alone=alone)
            batch.requests = []  # another batch may contain them before this batch ends

    def _keep(self, task: runtime.Task | None) -> None:
        if task is not None:
            self._tasks = [*(one for one in self._tasks if one.is_alive()), task]

    # -- ending ------------------------------------------------------------------------

    def close(self) -> None:
        """Cancel the batches that run in tasks of their own; their requests get OutcomeUnknown."""
        for task in self._tasks:
            task.cancel()
            task.join()

    def after_fork_in_child(self) -> None:
        """Leave the batches under way to the parent, because nothing runs them in the child."""
        fork.abandon((self._tasks, [ref() for ref in self._under_way], self._waiting()))
        self._begin()
