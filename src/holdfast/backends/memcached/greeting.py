"""What is said first on every connection: who we are, and whether the server understands us."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.backends.memcached import meta
from holdfast.backends.wires.parsing import Gibberish

if TYPE_CHECKING:
    from collections.abc import Generator

    from holdfast.backends.memcached.addresses import Address


def greeting(address: Address) -> Generator[bytes, meta.Answer, None]:
    """Log in where that is asked for, and find out by a no-op whether meta commands are known."""
    if address.login is not None:
        yield meta.log_in(*address.login)
    answer = yield meta.NOOP
    if not isinstance(answer, meta.Reply) or answer.code != b"MN":
        raise Gibberish(repr(answer)[:40])
