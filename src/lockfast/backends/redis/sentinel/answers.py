"""What the Sentinels' answers mean, in both flavours; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from lockfast.backends.redis import refusals
from lockfast.backends.redis.routing import Endpoint
from lockfast.errors import BackendUnavailable, ConfigurationError, LockError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lockfast.backends.redis.addresses import Address

LOOK_EVERY = 0.5
"""As old the Sentinels' word on who is the master may become before they are asked again."""

LOOK_PATIENCE = 0.25
"""So long a request waits for that word; without it, it goes where it would have gone."""

AFTER_SILENCE = 10.0
"""A Sentinel that has not answered is not waited for again before so long."""

Answer = Mapping[str, Any] | BaseException
"""The masters that a Sentinel knows, by name, or why it did not say."""


class Named(NamedTuple):
    """Whom a Sentinel calls the master; each failover that they agree on has a larger epoch."""

    epoch: int
    endpoint: Endpoint


def named(answer: Answer, service: str) -> Named | None:
    """Return the master that the Sentinel believes alive."""
    state = None if isinstance(answer, BaseException) else answer.get(service)
    if state is None or not state["is_master"] or state["is_sdown"] or state["is_odown"]:
        return None
    return Named(int(state["config-epoch"]), Endpoint(state["ip"], int(state["port"])))


def newest(answers: Iterable[Answer], service: str) -> Named | None:
    """Return the master of the latest epoch: who names another one has not heard of it yet."""
    found = (named(one, service) for one in answers)
    return max((one for one in found if one is not None), default=None)


def leads_failover(known: Mapping[str, Any], service: str) -> bool:
    """Whether the Sentinel leads a failover.

    Then it lists the old master until all replicas follow the new one, already with the new
    epoch; who it is, it tells those who ask for the address alone.
    """
    return service in known and "failover_in_progress" in known[service]["flags"]


def promoted(
    known: Mapping[str, Any], service: str, endpoint: Sequence[str | bytes | int] | None
) -> Mapping[str, Any]:
    """Return what a leader of a failover knows, by the address that it tells."""
    if endpoint is None:
        return known
    host, port = (one.decode() if isinstance(one, bytes) else str(one) for one in endpoint)
    state = known[service]
    if (host, int(port)) == (state["ip"], int(state["port"])):
        return known
    new = {"ip": host, "port": int(port), "is_sdown": False, "is_odown": False}
    return {**known, service: {**state, **new}}


def no_master(address: Address, answers: Sequence[Answer]) -> LockError:
    """Return the error when no Sentinel names a master that it believes alive."""
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
        error = refusals.of_sentinel(failure, where=address.where)
        if isinstance(error, ConfigurationError):
            return error
    reason = failures[0] if failures else "none is named"
    return BackendUnavailable(
        f"{address.where}: no Sentinel can be reached: {reason}; "
        f"does one run there{refusals.other_scheme(address.where)}?"
    )


def is_master(greeting: object) -> bool:
    """Whether the server called itself a master when it was greeted; unsaid counts as yes."""
    return refusals.said(greeting, "role") in ("", "master")


def not_master(where: str) -> BackendUnavailable:
    """Return the error when the Sentinels name a server that is a replica: they are behind."""
    return BackendUnavailable(f"{where}: the master became a replica; a failover is going on")
