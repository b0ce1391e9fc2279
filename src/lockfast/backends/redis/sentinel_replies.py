"""Reads the replies of Sentinels, for both flavours. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from lockfast.backends.redis import errors
from lockfast.backends.redis.resp import packed
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

MASTERS = packed(b"SENTINEL", b"MASTERS")


def address_request(service: str) -> bytes:
    """Return the request for the master's address."""
    return packed(b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", service.encode())


class Named(NamedTuple):
    """The master that a Sentinel names; the epoch grows with each agreed failover."""

    epoch: int
    endpoint: Endpoint


@dataclass(frozen=True, slots=True)
class WatchedMaster:
    """What a Sentinel reports about a master that it watches."""

    named: Named
    flags: frozenset[str]
    quorum: int
    sentinels: int
    """The number of Sentinels that watch the master."""


Masters: TypeAlias = Mapping[str, WatchedMaster]
"""The masters that a Sentinel watches, by their names."""

SentinelReply: TypeAlias = Masters | LockError
"""What a Sentinel knows; or the error if it did not answer."""


def masters_in(reply: Any) -> Masters:  # noqa: ANN401 - the protocol's
    """Return the masters in the reply to MASTERS."""
    facts = [[field.decode() for field in one] for one in reply]
    found = (dict(zip(one[::2], one[1::2], strict=True)) for one in facts)
    return {
        one["name"]: WatchedMaster(
            Named(int(one["config-epoch"]), _endpoint(one["ip"], one["port"])),
            frozenset(one["flags"].split(",")),
            quorum=int(one.get("quorum", 0)),
            sentinels=1 + int(one.get("num-other-sentinels", 0)),
        )
        for one in found
    }


def endpoint_in(reply: Any) -> Endpoint | None:  # noqa: ANN401 - as above
    """Return the address in the reply to `address_request`; None if the Sentinel knows none."""
    if reply is None:
        return None
    host, port = reply
    return _endpoint(host.decode(), port.decode())


def _endpoint(host: str, port: str) -> Endpoint:
    if int(port) not in range(1, 65536):
        raise ValueError(f"not a port: {port}")
    return Endpoint(host, int(port))


def named(answer: SentinelReply, service: str) -> Named | None:
    """Return the master that the Sentinel names; None if it does not believe the master alive."""
    master = None if isinstance(answer, LockError) else answer.get(service)
    if master is None or master.flags & {"s_down", "o_down"} or "master" not in master.flags:
        return None
    return master.named


def newest(answers: Iterable[SentinelReply], service: str) -> Named | None:
    """Return the master of the latest epoch; Sentinels that name another master are outdated."""
    found = (named(one, service) for one in answers)
    return max((one for one in found if one is not None), default=None)


def leads_failover(known: Masters, service: str) -> bool:
    """Return whether the Sentinel leads a failover.

    Until all replicas follow the new master, this Sentinel still lists the old master, although
    with the new epoch. Only the request for the master's address returns the new master.
    """
    return service in known and "failover_in_progress" in known[service].flags


def promoted(known: Masters, service: str, endpoint: Endpoint | None) -> Masters:
    """Return the leader's masters, with `endpoint` as the address of the promoted master."""
    master = known[service]
    if endpoint is None or endpoint == master.named.endpoint:
        return known
    new = Named(master.named.epoch, endpoint)
    return {**known, service: replace(master, named=new, flags=frozenset({"master"}))}


def no_master(address: Address, answers: Sequence[SentinelReply]) -> LockError:
    """Return the error for the case that no Sentinel names a master that it believes alive."""
    known = [one for one in answers if not isinstance(one, LockError)]
    failures = [one for one in answers if isinstance(one, LockError)]
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
        if isinstance(failure, ConfigurationError):
            return failure
    reason = failures[0] if failures else f"{address.where} names none"
    return BackendUnavailable(f"no Sentinel can be reached: {reason}")


def is_master(greeting: object) -> bool:
    """Return whether the server called itself a master in the handshake, or gave no role."""
    return errors.server_words(greeting, "role") in ("", "master")


def not_master(where: str) -> BackendUnavailable:
    """Return the error for a replica that outdated Sentinels still call the master."""
    return BackendUnavailable(f"{where}: the master became a replica; a failover is going on")
