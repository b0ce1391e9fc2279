"""What a client of several nodes may choose, and what is accepted."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockfast.core.quorum import majority, node_timeout
from lockfast.errors import ConfigurationError
from lockfast.options import checked_switch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockfast.model import Claim

MAX_TTL = 60.0


@dataclass(frozen=True, slots=True)
class RedlockOptions:
    """What is the same for all requests of a client."""

    max_ttl: float = MAX_TTL
    node_timeout: float | None = None
    min_validity: float = 0.0
    durable: bool = False

    def timeout_for(self, ttl: float) -> float:
        """Return how long one node is waited for."""
        return node_timeout(ttl) if self.node_timeout is None else self.node_timeout

    def check(self, claim: Claim) -> None:
        """Refuse what a node that was restarted could not be trusted with."""
        for option, seconds in (("ttl", claim.ttl), ("min_hold", claim.min_hold)):
            if seconds > self.max_ttl:
                raise ConfigurationError(
                    f"{option}={seconds:g}: at most max_ttl={self.max_ttl:g} s is accepted here, "
                    "since a node that was restarted counts again after that",
                    name=claim.name,
                )
        if self.min_validity >= claim.ttl:
            raise ConfigurationError(
                f"min_validity={self.min_validity:g} is no less than ttl={claim.ttl:g}: no grant "
                "could ever leave so much time",
                name=claim.name,
            )


OWN = frozenset(RedlockOptions.__dataclass_fields__)


def own_options(given: Mapping[str, object]) -> tuple[RedlockOptions, dict[str, object]]:
    """Return the options of Redlock, and those of the connections."""
    own = {name: value for name, value in given.items() if name in OWN}
    return _checked(**own), {name: given[name] for name in given if name not in OWN}


def _checked(
    *,
    max_ttl: object = MAX_TTL,
    node_timeout: object = None,
    min_validity: object = 0.0,
    durable: object = False,
) -> RedlockOptions:
    """Return the options, from a call or as texts from a URL, or say what is accepted."""
    return RedlockOptions(
        _seconds("max_ttl", max_ttl, least=0.05),
        None if node_timeout is None else _seconds("node_timeout", node_timeout, least=0.001),
        _seconds("min_validity", min_validity, least=0.0),
        checked_switch("durable", durable),
    )


def _seconds(option: str, value: object, *, least: float) -> float:
    try:
        found = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        found = math.nan
    if not least <= found <= 7 * 24 * 3600:
        raise ConfigurationError(f"{option}={value!r}: {least:g} s to a week is accepted")
    return found


def warn_of_number(nodes: int) -> None:
    """Say what a number of nodes costs that is even, or too small."""
    if nodes >= 3 and nodes % 2:  # noqa: PLR2004 - see the sentence
        return
    may_fail = nodes - majority(nodes)
    better = max(3, nodes + 1 if nodes % 2 == 0 else nodes)
    warnings.warn(
        f"redlock:// with {nodes} node(s): {may_fail} of them may fail, and "
        f"{better - majority(better)} of {better} could; give an odd number of at least 3",
        UserWarning,
        stacklevel=4,
    )
