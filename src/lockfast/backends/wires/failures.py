"""The sentences of a failure on a wire of ours.

The rule: a message says what happened, and only what can be the reason. A server that ended the
connection is not said to be late, and one that has answered before is not asked whether its
address is right.
"""

from __future__ import annotations

from lockfast.errors import OutcomeUnknown


def unanswered(error: BaseException, *, where: str) -> OutcomeUnknown:
    """Return the error of a request that was sent and has no answer."""
    if isinstance(error, TimeoutError):
        unknown = OutcomeUnknown(f"{where} did not answer in time")
    else:
        reason = str(error) or type(error).__name__
        unknown = OutcomeUnknown(f"{where} did not answer: the connection ended ({reason})")
    unknown.__cause__ = error
    return unknown


def since_it_answered(sentence: str) -> str:
    """Return what a sentence about an unreachable server says of one that has answered before.

    What follows the first semicolon asks whether it was ever the right one.
    """
    fact, _, _ = sentence.partition(";")
    return f"{fact}; it answered before, so the server or the network has failed since"
