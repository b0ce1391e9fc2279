"""What there is to say of advisory locks, whatever the store; pure."""

from __future__ import annotations

from holdfast.model import Finding


def no_records(what_ends_them: str) -> Finding:
    """Say what is missing, to whoever chose it long ago."""
    return Finding(
        "note",
        "records",
        f"advisory locks are in the server's memory: no fencing tokens, and {what_ends_them} or "
        "an operator who ends a connection frees them at once, before the holder knows",
        "leave mode=advisory out where that would do harm",
    )


def silence(setting: str, seconds: float, *, wanted: float) -> Finding:
    """Tell after how long the server ends a session from which nothing came."""
    if seconds == wanted:
        return Finding(
            "ok",
            "silence",
            f"the server frees what a silent client held after {seconds:g} s ({setting}), and its "
            "holder stops trusting it before",
        )
    return Finding(
        "error",
        "silence",
        f"{setting} of our session is {seconds:g} s, although {wanted:g} s were asked for: a "
        "holder may trust its lock longer than the server keeps it, or keep others out for longer",
        "see what changes settings between this client and the server",
    )
