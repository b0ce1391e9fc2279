"""What a user of the server must be allowed, and what not: the smallest ACL."""

from __future__ import annotations

import re
from functools import cache

from holdfast.scripts import redis_script
from holdfast.wire.resp import packed

VERBS = ("acquire", "acquire_all", "beat", "break", "inspect", "release", "renew", "withdraw")

DIRECT = ("EVALSHA", "SCRIPT LOAD", "SUBSCRIBE", "UNSUBSCRIBE", "SCAN")
"""What the client itself runs; the rest is run by the scripts, as the same user."""

TOO_WIDE = ("FLUSHALL", "CONFIG SET", "SHUTDOWN")
"""What nobody needs who only takes locks."""


@cache
def commands() -> tuple[str, ...]:
    """Return every command that is needed, as the scripts name them."""
    sources = b"".join(redis_script(verb).source for verb in VERBS)
    in_scripts = {found.decode() for found in re.findall(rb"call\('(\w+)'", sources)}
    return (*DIRECT, *sorted(in_scripts))


def smallest(namespace: str) -> str:
    """Return the rules of a user who can do what Holdfast needs, and nothing else."""
    allowed = " ".join(f"+{one.lower().replace(' ', '|')}" for one in commands())
    return f"-@all {allowed} ~{namespace}:* &{namespace}:inbox:*"


def question(namespace: str) -> tuple[bytes, list[str]]:
    """Return the request that asks what is allowed, and what its answers speak of.

    First the commands that are needed, then those that are too many.
    """
    asked = [*commands(), *TOO_WIDE]
    examples = [_example(one, namespace).encode() for one in asked]
    script = redis_script("permissions")
    return packed(b"EVALSHA", script.sha, b"0", *examples), asked


def _example(command: str, namespace: str) -> str:
    """Return the command on something of ours."""
    if command in ("PUBLISH", "SUBSCRIBE"):
        return f"{command} {namespace}:inbox:0"
    if command in (*DIRECT, *TOO_WIDE, "TIME"):
        return {"SCRIPT LOAD": "SCRIPT LOAD x", "EVALSHA": "EVALSHA x 0"}.get(command, command)
    return f"{command} {namespace}:{{x}}:door"
