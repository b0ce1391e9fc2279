"""Reads the replies of Sentinels, for both flavours. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from lockfast.backends.redis import errors
from lockfast.core.descriptor import Endpoint
from lockfast.errors import BackendUnavailable, ConfigurationError, LockError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lockfast.backends.redis.address import Address


SENTINEL_POLL_SECONDS = 0.5
"""Maximum age of the Sentinels' answer about the master, in seconds, before they are asked again.
"""

SENTINEL_TIMEOUT_SECONDS = 0.25
"""Timeout for the Sentinels' answer, in seconds; without an answer, requests go to the known
master."""

SENTINEL_RETRY_SECONDS = 10.0
"""Pause before a Sentinel that did not answer is asked again, in seconds."""

SentinelReply = Mapping[str, Any] | BaseException
"""The masters that a Sentinel knows, by name; or the error if the Sentinel did not answer."""


class Named(NamedTuple):
    """The master that a Sentinel names; the epoch grows with each agreed failover."""

    epoch: int
    endpoint: Endpoint


def named(answer: SentinelReply, service: str) -> Named | None:
    """Return the master that the Sentinel names; None if it does not believe the master alive."""
    state = None if isinstance(answer, BaseException) else answer.get(service)
    if state is None or not state["is_master"] or state["is_sdown"] or state["is_odown"]:
        return None
    return Named(int(state["config-epoch"]), Endpoint(state["ip"], int(state["port"])))


def newest(answers: Iterable[SentinelReply], service: str) -> Named | None:
    """Return the master of the latest epoch; Sentinels that name another master are outdated."""
    found = (named(one, service) for one in answers)
    return max((one for one in found if one is not None), default=None)


def leads_failover(known: Mapping[str, Any], service: str) -> bool:
    """Return whether the Sentinel leads a failover.

    Until all replicas follow the new master, this Sentinel still lists the old master, although
    with the new epoch. Only the request for the master's address returns the new master.
    """
    return service in known and "failover_in_progress" in known[service]["flags"]


def promoted(
    known: Mapping[str, Any], service: str, endpoint: Sequence[str | bytes | int] | None
) -> Mapping[str, Any]:
    """Return the leader's masters, with `endpoint` as the address of the promoted master."""
    if endpoint is None:
        return known
    host, port = (one.decode() if isinstance(one, bytes) else str(one) for one in endpoint)
    state = known[service]
    if (host, int(port)) == (state["ip"], int(state["port"])):
        return known
    new = {"ip": host, "port": int(port), "is_sdown": False, "is_odown": False}
    return {**known, service: {**state, **new}}


def no_master(address: Address, answers: Sequence[SentinelReply]) -> LockError:
    """Return the error for the case that no Sentinel names a master that it believes alive."""
    known = [one for one in answers if not isinstance(one, BaseException)]
    failures = [one for one in answers if isinstance(one, BaseException)]
    if any(address.service in one for one in known):
        return BackendUnavailable(
            f"{address.where}: the Sentinels see no living master {address.service!r} at the moment"
        )
    if known:
        names = sorted({str(name) for one in known for name in one})
        return ConfigurationError(
            f"{address.where}: the Sentinels know no master {address.service!r}; "
            f"they know: {', '.join(names) or 'none'}"
        )
    for failure in failures:
        error = errors.of_sentinel(failure, where=address.where)
        if isinstance(error, ConfigurationError):
            return error
    reason = failures[0] if failures else "none is named"
    return BackendUnavailable(
        f"{address.where}: no Sentinel can be reached: {reason}; "
        f"does one run there{errors.other_scheme(address.where)}?"
    )


def is_master(greeting: object) -> bool:
    """Return whether the server called itself a master in the handshake, or gave no role."""
    return errors.server_words(greeting, "role") in ("", "master")


def not_master(where: str) -> BackendUnavailable:
    """Return the error for a replica that outdated Sentinels still call the master."""
    return BackendUnavailable(f"{where}: the master became a replica; a failover is going on")
