"""What is said to a server for its advisory locks, and a request while it is under way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from holdfast.runtime import aio as runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from holdfast.backends.sql.steps import Ask, Rows
    from holdfast.errors import LockError


class Statements(Protocol):
    """What is said to a store; each answers one row, the answer and whose session gave it."""

    def take(self, key: Any, number: int) -> Ask:  # noqa: ANN401 - whatever `key_of` returns
        """Lock the key, if it is free and the session is the one of that number."""
        ...

    def give_back(self, key: Any, number: int) -> Ask:  # noqa: ANN401 - as above
        """Unlock it again."""
        ...

    def beat(self) -> Ask:
        """Say nothing but that we live."""
        ...

    def last_for(self, ttl: float) -> Ask:
        """Let the server end the session when nothing came for so long, or a little longer."""
        ...

    def key_of(self, name: str) -> Hashable:
        """Return what is locked for a name."""
        ...

    def holders(self, key: Any) -> Ask:  # noqa: ANN401 - whatever `key_of` returns
        """Tell whose sessions have the lock: number, user, host, program."""
        ...

    def end_session(self, number: int) -> str:
        """Return the statement by which an operator ends a session, for people."""
        ...


class Request:
    """Something that the session is to ask, and what came of it."""

    def __init__(
        self,
        ask: Ask,
        *,
        deadline: float,
        heard: Callable[[Any], None] | None = None,
        failed: Callable[[], object] | None = None,
        lasts: float | None = None,
    ) -> None:
        self.ask = ask
        self.deadline = deadline
        self.heard = heard
        """Told of the answer in the step in which it comes; then the row names the session too."""
        self.failed = failed
        """Told, in the same way, that the server has answered by an error."""
        self.lasts = lasts
        """The ttl of the session once it is answered, if it is to have another."""
        self.ended = runtime.Event()
        self.is_begun = False
        self.rows: Rows = ()
        self.error: LockError | None = None
