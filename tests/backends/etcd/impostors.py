"""Replies of a server that is not quite etcd: HTTP/2 frames for a `Talker` to send."""

from __future__ import annotations

from collections.abc import Callable

from lockfast.backends.etcd.http2 import frames
from lockfast.backends.etcd.http2.frames import frame

GREETING = frame(frames.SETTINGS, 0, 0)
"""A server that sends this is taken for etcd."""

BEGINNING = b"\x88" + frames.literal(b"content-type", b"application/grpc")
"""The headers before a message."""


def at_each_call(answer: Callable[[int], bytes]) -> Callable[[bytes], bytes]:
    """Return a function that answers each call with `answer(stream)`, given its stream's number."""

    def said(data: bytes) -> bytes:
        return b"".join(answer(stream) for stream in _calls_in(data))

    return said


def _calls_in(data: bytes) -> list[int]:
    found, at = [], len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") if data.startswith(b"PRI") else 0
    while at + frames.FRAME_HEAD_BYTES <= len(data):
        size, kind, _, stream = frames.head_of(bytearray(data), at)
        at += frames.FRAME_HEAD_BYTES + size
        if kind == frames.HEADERS:
            found.append(stream)
    return found


def refusal(stream: int, text: str, *, status: bytes = b"14") -> bytes:
    """Return a reply that refuses the call."""
    head = BEGINNING + frames.literal(b"grpc-status", status)
    head += frames.literal(b"grpc-message", text.encode())
    return frame(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, stream, head)


def message(stream: int, body: bytes) -> bytes:
    """Return the beginning of a reply with this body; the end of the reply is not included."""
    return frame(frames.HEADERS, frames.END_HEADERS, stream, BEGINNING) + b"".join(
        frame(frames.DATA, 0, stream, body[at : at + frames.FRAME_MAX_BYTES])
        for at in range(0, len(body), frames.FRAME_MAX_BYTES)
    )


def end(stream: int) -> bytes:
    """Return the end of a successful reply."""
    head = frames.literal(b"grpc-status", b"0")
    return frame(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, stream, head)
