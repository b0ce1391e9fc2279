"""The messages for failures on our own connections.

A message says what happened, and suggests only possible reasons. If the server closed the
connection, the message does not say that the server was late. If the server has answered before,
the message does not question the server's address.
"""

from __future__ import annotations

from lockfast.errors import BackendUnavailable, OutcomeUnknown


def not_connected(*, where: str) -> BackendUnavailable:
    """Return the error for a request that came too late to connect."""
    return BackendUnavailable(f"{where}: there was no time left to connect")


def not_sent(error: BaseException, *, where: str) -> BackendUnavailable:
    """Return the error for a request that was not sent, because the connection ended before."""
    away = BackendUnavailable(f"{where}: the connection ended ({_reason(error)})")
    away.__cause__ = error
    return away


def unanswered(error: BaseException, *, where: str) -> OutcomeUnknown:
    """Return the error for a request that was sent and not answered."""
    if isinstance(error, TimeoutError):
        unknown = OutcomeUnknown(f"{where} did not answer in time")
    else:
        unknown = OutcomeUnknown(f"{where} did not answer: the connection ended ({_reason(error)})")
    unknown.__cause__ = error
    return unknown


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__


def since_it_answered(sentence: str) -> str:
    """Return the message about an unreachable server, adapted if that server answered before.

    The part after the first semicolon is replaced, because it asks whether the address was ever
    right.
    """
    fact, _, _ = sentence.partition(";")
    return f"{fact}; it answered before, so the server or the network has failed since"
