"""Error mapping: why too few nodes could be counted on, with a reason for each. No I/O."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from lockfast.backends.redis import errors
from lockfast.backends.redis.resp import ErrorReply
from lockfast.backends.redlock.node import NodeMismatch, NotEnrolled
from lockfast.core.quorum import majority
from lockfast.errors import BackendUnavailable, ConfigurationError, LockError, OutcomeUnknown

if TYPE_CHECKING:
    from lockfast.backends.redlock.node import Node
    from lockfast.backends.redlock.round import Round


def too_few(found: Round) -> LockError:
    """Return the error for a request without replies from a majority of nodes that count."""
    reasons = reasons_of(found)
    errors = [one for one in reasons.values() if isinstance(one, LockError)]
    number = len(found.nodes)
    if len(errors) == number and all(isinstance(one, ConfigurationError) for one in errors):
        return for_one_caller(errors[0])  # waiting does not cure configuration errors
    texts = "; ".join(str(one) for one in reasons.values())
    error = BackendUnavailable(
        f"{majority(number)} of {number} nodes are needed, and {number - len(reasons)} can be "
        f"counted on: {texts}"
    )
    error.__cause__ = errors[0] if errors else None
    return error


def for_one_caller(error: LockError) -> LockError:
    """Return a copy of the error for one caller to raise.

    Many callers share a node's error, but each caller records its own lock's name in the error that
    it raises.
    """
    # Raise the public base class instead of NodeMismatch, because callers rely on the type of an
    # error.
    own = ConfigurationError(str(error)) if isinstance(error, NodeMismatch) else copy.copy(error)
    own.__cause__ = error
    return own


def not_confirmed(found: Round, *, what: str) -> LockError:
    """Return the error for a request that too few nodes confirmed."""
    unavailable = too_few(found)
    if not any(found.asked):
        return unavailable
    unknown = OutcomeUnknown(f"{what} was confirmed by too few: {unavailable}")
    unknown.__cause__ = unavailable
    return unknown


def reasons_of(found: Round) -> dict[int, LockError | str]:
    """Return the reason for each node that could not be counted on."""
    reasons: dict[int, LockError | str] = {}
    for node, replies in zip(found.nodes, found.replies, strict=True):
        if replies is None:
            reasons[node.number] = f"{node.where} did not answer in time"
        elif isinstance(replies, LockError):
            reasons[node.number] = replies
        elif (
            refusal := next((one for one in replies if isinstance(one, ErrorReply)), None)
        ) is not None:
            reasons[node.number] = errors.refused(refusal, where=node.where)
        elif len(replies[0]) == 1 or not replies[0][1]:
            reasons[node.number] = not_counting(node)
    return reasons


def not_counting(node: Node) -> str:
    """Return the sentence about a node that may have forgotten its grants."""
    if isinstance(node.trouble, NotEnrolled):
        return str(node.trouble)
    when = "" if node.counts_in is None else f" in {max(0.0, node.counts_in):.0f} s"
    waits = when or " once enough of the others have been asked"
    return f"{node.where} was started or emptied lately and counts again{waits}"
