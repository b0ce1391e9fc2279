"""The messages for failures on our own connections.

A message says what happened, and suggests only possible reasons. It does not say that a server was
late if it closed the connection, and does not question the address of a server that has answered
before.
"""

from __future__ import annotations

from lockfast.errors import OutcomeUnknown


def unanswered(error: BaseException, *, where: str) -> OutcomeUnknown:
    """Return the error for a request that was sent and not answered."""
    if isinstance(error, TimeoutError):
        unknown = OutcomeUnknown(f"{where} did not answer in time")
    else:
        reason = str(error) or type(error).__name__
        unknown = OutcomeUnknown(f"{where} did not answer: the connection ended ({reason})")
    unknown.__cause__ = error
    return unknown


def since_it_answered(sentence: str) -> str:
    """Return the message about an unreachable server, adapted to one that has answered before.

    The part after the first semicolon is replaced, because it asks whether this was ever the right
    server.
    """
    fact, _, _ = sentence.partition(";")
    return f"{fact}; it answered before, so the server or the network has failed since"
