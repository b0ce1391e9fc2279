"""What the Sentinels say about the failovers that locks can live through; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends.redis import refusals
from lockfast.backends.redis.sentinel.answers import named
from lockfast.model import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lockfast.backends.redis.routing import Endpoint
    from lockfast.backends.redis.sentinel.answers import Answer

FEWEST = 3
"""A failover needs the majority of all Sentinels; of two, none may be missing."""


def sentinel_findings(
    views: Mapping[Endpoint, Answer], service: str, *, where: str
) -> Iterator[Finding]:
    """Yield what an operator should know of those who watch the master."""
    answers = list(views.values())
    for endpoint, answer in views.items():
        if isinstance(answer, BaseException):
            yield Finding(
                "warning",
                "sentinels",
                f"{endpoint} does not answer: {refusals.of_sentinel(answer, where=where)}",
                "start it, or take it out of the URL",
            )
        elif service not in answer:
            yield Finding(
                "warning",
                "sentinels",
                f"{endpoint} does not watch {service}",
                "SENTINEL MONITOR on it, or take it out of the URL",
            )
    known = [one for one in answers if not isinstance(one, BaseException)]
    states = [one[service] for one in known if service in one]
    if not states:
        return
    count = 1 + max(int(one["num-other-sentinels"]) for one in states)
    quorum = max(int(one["quorum"]) for one in states)
    yield _few_or_enough(count, quorum)
    if quorum < 2 < count:  # noqa: PLR2004 - one alone, where there are others to ask
        yield Finding(
            "note",
            "quorum",
            "the quorum is 1: a single Sentinel that loses sight of the master begins a failover, "
            "though it may be well",
            f"SENTINEL SET {service} quorum {count // 2 + 1}, on every Sentinel",
        )
    masters = {found.endpoint for one in answers if (found := named(one, service)) is not None}
    if len(masters) > 1:
        yield Finding(
            "warning",
            "sentinels",
            f"they do not agree who is the master: {', '.join(sorted(map(str, masters)))}",
            "it passes within seconds after a failover; if it does not, see the way between them",
        )


def _few_or_enough(count: int, quorum: int) -> Finding:
    if quorum > count:
        return Finding(
            "error",
            "quorum",
            f"the quorum is {quorum}, and there are {count} Sentinels: they never agree on a "
            "failover, so a master that dies is not replaced",
            "lower the quorum (SENTINEL SET), or start more Sentinels",
        )
    if count < FEWEST:
        return Finding(
            "warning",
            "sentinels",
            f"there are {count}: if one fails, the rest are no majority, and a master that dies is "
            "not replaced",
            "three Sentinels or more, on machines of their own",
        )
    return Finding("ok", "sentinels", f"{count}, of whom {quorum} must agree that the master fails")
