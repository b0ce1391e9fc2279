"""Where kazoo puts the answers of a server, and what they mean; the same for both flavours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from kazoo.exceptions import ConnectionLoss, SessionExpiredError, SessionMovedError

from lockfast.backends.sessions import refusals
from lockfast.errors import OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Callable

Answer = Any
"""What the server answered to one request, or kazoo's error for its no."""


class Landing(Protocol):
    """What gathers the answers to several requests."""

    def land(self, number: int, answer: Answer) -> None:
        """Keep the answer to one of them."""
        ...


class Slot:
    """Takes the answer to one of several requests."""

    __slots__ = ("_flight", "_number")

    def __init__(self, flight: Landing, number: int) -> None:
        self._flight = flight
        self._number = number

    def set(self, value: Answer) -> None:
        """Take the answer."""
        self._flight.land(self._number, value)

    def set_exception(self, error: Answer) -> None:
        """Take a no, or that there will be no answer."""
        self._flight.land(self._number, error)


class Told:
    """Takes an answer that is not waited for."""

    __slots__ = ("_heard",)

    def __init__(self, heard: Callable[[Answer], None]) -> None:
        self._heard = heard

    def set(self, value: Answer) -> None:
        """Pass the answer on."""
        self._heard(value)

    def set_exception(self, error: Answer) -> None:
        """Pass on a no, or that there will be no answer."""
        self._heard(error)


def checked(answers: list[Answer], *, is_complete: bool, where: str) -> list[Answer]:
    """Return the answers, or raise what the missing ones mean."""
    for answer in answers:
        if isinstance(answer, SessionExpiredError):
            raise refusals.ended(where=where) from answer
        if isinstance(answer, ConnectionLoss | SessionMovedError):
            raise OutcomeUnknown(f"{where} did not answer: the connection was lost") from answer
    if not is_complete:
        raise OutcomeUnknown(f"{where} did not answer in time")
    return answers
