"""The first exchange on every connection, which checks that the server understands us."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends.memcached import errors, meta
from lockfast.backends.network.codec import ProtocolError

if TYPE_CHECKING:
    from lockfast.backends.memcached.address import Address
    from lockfast.backends.network.target import Handshake


def handshake(address: Address) -> Handshake:
    """Check with a no-op that the server has meta commands, and log in if the server requires it.

    The login must not come first, because it is a `set` of an item, and a server that requires no
    password would store our password as an item that anyone can read.
    """
    [answer] = yield [meta.NOOP]
    if address.login is not None and errors.asks_for_login(answer):
        [answer] = yield [meta.log_in(*address.login)]
        _check(answer, address)
        [answer] = yield [meta.NOOP]
    _check(answer, address)
    if not isinstance(answer, meta.MetaFlags) or answer.code != b"MN":
        raise ProtocolError(repr(answer)[:40])


def _check(answer: meta.MetaReply, address: Address) -> None:
    if isinstance(answer, meta.MetaError):
        raise errors.refused(answer, where=address.where)
