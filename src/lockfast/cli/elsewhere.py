"""Commands that this platform has no means for: they say so, and what to do instead."""

from __future__ import annotations

import sys

import click

from lockfast import ConfigurationError
from lockfast.cli.store import tell
from lockfast.platforms import here

SENTENCES = {
    ("run", "Windows"): "lockfast run ends a command and all that it started when the lease is "
    "lost, for which Windows has no process groups; take the lock in a Python program instead",
    ("demo", "Windows"): "lockfast demo freezes processes, which Windows has no signal for; "
    "play it on Linux or macOS",
    ("challenge", "Windows"): "lockfast challenge needs Linux, whose processes it freezes and "
    "whose servers it starts; a store that is reached from here can be challenged from there",
}
SENTENCES["challenge", "macOS"] = SENTENCES["challenge", "Windows"]


def unavailable(name: str) -> click.Command | None:
    """Return what stands for the command on this platform; None where the command itself does."""
    sentence = SENTENCES.get((name, here.NAME))
    if sentence is None:
        return None

    def refuse() -> None:
        tell(sentence)
        sys.exit(ConfigurationError.exit_code)

    return click.Command(
        name,
        callback=refuse,
        help=f"Not on {here.NAME}: {sentence}.",
        short_help=f"Not on {here.NAME}.",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
