"""What somebody says who is not quite etcd: frames of HTTP/2, as an answer of a talker."""

from __future__ import annotations

from collections.abc import Callable

from lockfast.backends.etcd.http2 import frames, hpack
from lockfast.backends.etcd.http2.frames import frame

GREETING = frame(frames.SETTINGS, 0, 0)
"""Whoever says this is believed to be etcd."""

BEGINNING = b"\x88" + hpack.literal(b"content-type", b"application/grpc")
"""The headers before a message."""


def at_each_call(answer: Callable[[int], bytes]) -> Callable[[bytes], bytes]:
    """Answer each call by what its stream's number makes of it."""

    def said(data: bytes) -> bytes:
        return b"".join(answer(stream) for stream in _calls_in(data))

    return said


def _calls_in(data: bytes) -> list[int]:
    found, at = [], len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") if data.startswith(b"PRI") else 0
    while at + frames.HEAD <= len(data):
        size, kind, _, stream = frames.head_of(bytearray(data), at)
        at += frames.HEAD + size
        if kind == frames.HEADERS:
            found.append(stream)
    return found


def refusal(stream: int, text: str, *, status: bytes = b"14") -> bytes:
    """Return the answer that says no."""
    head = BEGINNING + hpack.literal(b"grpc-status", status)
    head += hpack.literal(b"grpc-message", text.encode())
    return frame(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, stream, head)


def message(stream: int, body: bytes) -> bytes:
    """Return an answer that begins as it should, and says this; it has no end."""
    return frame(frames.HEADERS, frames.END_HEADERS, stream, BEGINNING) + b"".join(
        frame(frames.DATA, 0, stream, body[at : at + frames.LARGEST])
        for at in range(0, len(body), frames.LARGEST)
    )


def end(stream: int) -> bytes:
    """Return the end of an answer that went well."""
    head = hpack.literal(b"grpc-status", b"0")
    return frame(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, stream, head)
