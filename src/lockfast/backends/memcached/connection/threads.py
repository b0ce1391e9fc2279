"""The wire of the sync flavour: blocking calls on the caller's thread; `aio` is its pair."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from lockfast.backends.memcached import meta, refusals
from lockfast.backends.memcached.greeting import greeting
from lockfast.backends.memcached.steps import Versions
from lockfast.backends.wires.parsing import Gibberish
from lockfast.backends.wires.threads import SocketLink, SocketWire
from lockfast.errors import BackendUnavailable, LockError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from lockfast.backends.memcached.addresses import Address
    from lockfast.backends.memcached.steps import Steps
    from lockfast.runtime.clock import Clock

__all__ = ["Link", "Wire"]

T = TypeVar("T")


class Link(SocketLink):
    """One connection, used by one thread at a time, and what it knows of the items."""

    __slots__ = ("versions",)

    def __init__(self, sock: socket.socket, ours: bytes, clock: Clock, generation: int) -> None:
        super().__init__(sock, meta.Parser(ours), clock, generation=generation)
        self.versions: Versions = Versions(clock.now)


class Wire(SocketWire[Link]):
    """The way to one server; of its keys those are listed that begin with `ours`."""

    def __init__(self, address: Address, *, ours: bytes, clock: Clock) -> None:
        super().__init__(clock=clock, where=address.where)
        self._address = address
        self._ours = ours

    def converse(self, begin: Callable[[Versions], Steps[T]], *, deadline: float) -> T:
        """Return what the steps return, all of them over one connection.

        Raises BackendUnavailable if nothing was sent, OutcomeUnknown if an answer is missing.
        """

        def act(link: Link) -> T:
            return self._drive(link, begin(link.versions), deadline)

        return self._used(self._take(deadline), act)

    def converse_all(
        self, begins: Sequence[Callable[[Versions], Steps[T]]], *, deadline: float
    ) -> list[T | LockError]:
        """Do steps that know nothing of each other side by side; an error for each that failed."""
        ended: dict[int, T | LockError] = {}

        def act(link: Link) -> None:
            self._drive_all(link, [begin(link.versions) for begin in begins], ended, deadline)

        link = self._take(deadline)
        try:
            self._used(link, act)
        except LockError as unknown:
            return [ended.get(number, unknown) for number in range(len(begins))]
        return [ended[number] for number in range(len(begins))]

    def answer(self, request: bytes, *, deadline: float) -> Any:  # noqa: ANN401 - any answer
        """Return the answer to one command; a refusal is raised."""

        def act(link: Link) -> Any:  # noqa: ANN401 - as above
            link.send(request, deadline=deadline)
            return self._accepted(request, link.receive(deadline=deadline))

        return self._used(self._take(deadline), act)

    def _drive(self, link: Link, steps: Generator[bytes, Any, T], deadline: float) -> T:
        try:
            request = next(steps)
            while True:
                link.send(request, deadline=deadline)
                answer = link.receive(deadline=deadline)
                request = steps.send(self._accepted(request, answer))
        except StopIteration as end:
            result: T = end.value
            return result

    def _drive_all(
        self, link: Link, many: list[Steps[T]], ended: dict[int, T | LockError], deadline: float
    ) -> None:
        """Send together what each of them asks next, until all have ended."""
        asked = {number: next(steps) for number, steps in enumerate(many)}
        while asked:
            link.send(b"".join(asked.values()), deadline=deadline)
            answered, asked = asked, {}
            for number, request in answered.items():
                answer = link.receive(deadline=deadline)
                try:
                    asked[number] = many[number].send(self._accepted(request, answer))
                except StopIteration as end:
                    ended[number] = end.value
                except LockError as error:
                    ended[number] = error
                    if isinstance(answer, meta.Refusal) and not answer.is_in_step:
                        raise  # whose the next answer is nobody can say

    def _accepted(self, request: bytes, answer: meta.Answer) -> Any:  # noqa: ANN401 - any answer
        if isinstance(answer, meta.Refusal):
            raise refusals.refused(answer, where=self.where)
        if not meta.fits(request, answer):
            raise Gibberish(answer)
        return answer

    # -- connecting --------------------------------------------------------------------

    def _connect(self, deadline: float) -> Link:
        address, generation = self._address, self._idle.generation
        left = deadline - self._clock.now()
        if left <= 0:
            raise BackendUnavailable(f"{self.where}: there was no time left to connect")
        sock: socket.socket | None = None
        try:
            sock = socket.create_connection((address.host, address.port), timeout=left)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if address.tls is not None:
                sock = address.tls.wrap_socket(sock, server_hostname=address.host)
            link = Link(sock, self._ours, self._clock, generation)
            self._greet(link, deadline)
        except (OSError, Gibberish) as error:
            if sock is not None:
                sock.close()
            raise self._unreachable(error) from error
        except BaseException:  # an interrupt, or a refusal: nobody will use it
            if sock is not None:
                sock.close()
            raise
        self._has_answered = True
        return link

    def _greet(self, link: Link, deadline: float) -> None:
        steps = greeting(self._address)
        with suppress(StopIteration):
            request = next(steps)
            while True:
                link.send(request, deadline=deadline)
                request = steps.send(link.receive(deadline=deadline))

    def _unreachable(self, error: BaseException) -> LockError:
        if isinstance(error, Gibberish):
            return refusals.not_memcached(where=self.where)
        return refusals.unreachable(error, where=self.where, has_answered=self._has_answered)
