"""What is said first on every connection: who we are, and whether the server understands us."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends.memcached import meta, refusals
from lockfast.backends.wires.parsing import Gibberish

if TYPE_CHECKING:
    from collections.abc import Generator

    from lockfast.backends.memcached.addresses import Address


def greeting(address: Address) -> Generator[bytes, meta.Answer, None]:
    """Find out by a no-op whether meta commands are known, and log in where that is asked for.

    Not before: to log in is to `set` an item, and a server that asks for no password would keep
    ours as one that everybody can read.
    """
    answer = yield meta.NOOP
    if address.login is not None and refusals.asks_for_login(answer):
        _accepted((yield meta.log_in(*address.login)), address)
        answer = yield meta.NOOP
    answer = _accepted(answer, address)
    if not isinstance(answer, meta.Reply) or answer.code != b"MN":
        raise Gibberish(repr(answer)[:40])


def _accepted(answer: meta.Answer, address: Address) -> meta.Answer:
    if isinstance(answer, meta.Refusal):
        raise refusals.refused(answer, where=address.where)
    return answer
