"""The memcached transport for threads: blocking calls on the caller's thread."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from lockfast.backends.memcached import errors, meta
from lockfast.backends.memcached.handshake import handshake
from lockfast.backends.memcached.verbs import Versions
from lockfast.backends.network.codec import ProtocolError
from lockfast.backends.network.connection_threads import SocketConnection, SocketTransport
from lockfast.errors import LockError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Generator, Sequence

    from lockfast.backends.memcached.address import Address
    from lockfast.backends.memcached.verbs import Steps
    from lockfast.backends.network.target import Handshake
    from lockfast.runtime.clock import Clock

__all__ = ["MemcachedConnection", "MemcachedTransport"]

T = TypeVar("T")


class MemcachedConnection(SocketConnection):
    """One connection, used by one thread at a time, and the versions of items that it wrote."""

    __slots__ = ("versions",)

    def __init__(self, sock: socket.socket, ours: bytes, clock: Clock, generation: int) -> None:
        super().__init__(sock, meta.MetaCodec(ours), clock, generation=generation)
        self.versions: Versions = Versions(clock.now)


class MemcachedTransport(SocketTransport[MemcachedConnection]):
    """The transport to one server; it lists only the server's keys that begin with `ours`."""

    def __init__(self, address: Address, *, ours: bytes, clock: Clock) -> None:
        unreachable = partial(errors.unreachable, target=address.target)
        super().__init__(address.target, unreachable=unreachable, clock=clock)
        self._address = address
        self._ours = ours

    def run_steps(self, begin: Callable[[Versions], Steps[T]], *, deadline: float) -> T:
        """Run the steps over one connection, and return their result.

        Raises BackendUnavailable if nothing was sent, and OutcomeUnknown if a reply is missing.
        """

        def act(connection: MemcachedConnection) -> T:
            return self._drive(connection, begin(connection.versions), deadline)

        return self._used(self._take(deadline), act)

    def run_all_steps(
        self, begins: Sequence[Callable[[Versions], Steps[T]]], *, deadline: float
    ) -> list[T | LockError]:
        """Run independent steps in one batch; return the result or the error of each."""
        ended: dict[int, T | LockError] = {}

        def act(connection: MemcachedConnection) -> None:
            self._drive_all(
                connection, [begin(connection.versions) for begin in begins], ended, deadline
            )

        connection = self._take(deadline)
        try:
            self._used(connection, act)
        except LockError as unknown:
            return [ended.get(number, unknown) for number in range(len(begins))]
        return [ended[number] for number in range(len(begins))]

    def answer(self, request: bytes, *, deadline: float) -> Any:  # noqa: ANN401 - any answer
        """Return the reply to one command; an error from the server is raised."""

        def act(connection: MemcachedConnection) -> Any:  # noqa: ANN401 - as above
            connection.send(request, deadline=deadline)
            return self._accepted(request, connection.receive(deadline=deadline))

        return self._used(self._take(deadline), act)

    def _drive(
        self, connection: MemcachedConnection, steps: Generator[bytes, Any, T], deadline: float
    ) -> T:
        try:
            request = next(steps)
            while True:
                connection.send(request, deadline=deadline)
                answer = connection.receive(deadline=deadline)
                request = steps.send(self._accepted(request, answer))
        except StopIteration as end:
            result: T = end.value
            return result

    def _drive_all(
        self,
        connection: MemcachedConnection,
        many: list[Steps[T]],
        ended: dict[int, T | LockError],
        deadline: float,
    ) -> None:
        """Send the next requests of all steps together, until all have ended."""
        asked = {number: next(steps) for number, steps in enumerate(many)}
        while asked:
            connection.send(b"".join(asked.values()), deadline=deadline)
            answered, asked = asked, {}
            for number, request in answered.items():
                answer = connection.receive(deadline=deadline)
                try:
                    asked[number] = many[number].send(self._accepted(request, answer))
                except StopIteration as end:
                    ended[number] = end.value
                except LockError as error:
                    ended[number] = error
                    if isinstance(answer, meta.MetaError) and not answer.is_in_step:
                        raise  # the next replies can no longer be matched to requests

    def _accepted(self, request: bytes, answer: meta.MetaReply) -> Any:  # noqa: ANN401 - any answer
        if isinstance(answer, meta.MetaError):
            raise errors.refused(answer, where=self.where)
        if not meta.fits(request, answer):
            raise ProtocolError(answer)
        return answer

    def _new_connection(self, sock: socket.socket, generation: int) -> MemcachedConnection:
        return MemcachedConnection(sock, self._ours, self._clock, generation)

    def _handshake(self) -> Handshake:
        return handshake(self._address)
