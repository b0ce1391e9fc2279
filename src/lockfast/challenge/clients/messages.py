"""What a run and its fork server say to each other: values as JSON, and descriptors beside them."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

LENGTH = 4
"""In bytes, of what says how long a message is."""


class HungUp(EOFError):
    """The other side has gone."""


def say(way: socket.socket, words: object, *, descriptors: Sequence[int] = ()) -> None:
    """Send it; raise HungUp if nobody is there."""
    message = json.dumps(words).encode()
    try:
        socket.send_fds(way, [len(message).to_bytes(LENGTH, "big")], descriptors)
        way.sendall(message)
    except ConnectionError as error:
        raise HungUp from error


def hear(way: socket.socket, *, descriptors: int = 0) -> tuple[Any, list[int]]:
    """Return what was said, and at most so many descriptors; raise HungUp if nobody is there."""
    try:
        # The length and the descriptors come as one piece, since they were sent as one.
        length, found, _, _ = socket.recv_fds(
            way, LENGTH, descriptors, flags=socket.MSG_CMSG_CLOEXEC
        )
        message = b""
        while length and len(message) < int.from_bytes(length, "big"):
            piece = way.recv(int.from_bytes(length, "big") - len(message))
            if not piece:
                raise HungUp
            message += piece
    except ConnectionError as error:
        raise HungUp from error
    if not length:
        raise HungUp
    return json.loads(message), found
