"""A custom backend, in both flavours: locks as JSON files in a directory.

It shows how little a backend needs: the verbs, a declaration of what the backend can do, and the
contract that proves it (test_directory_backend.py). The backend keeps no line, so it declares
`fair=False` and offers `lock()` only; a waiting client polls every few milliseconds.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import quote, unquote

from lockfast import (
    AsyncBackend,
    Backend,
    Capabilities,
    Claim,
    Closing,
    Finding,
    Grant,
    Held,
    Holder,
    Inspection,
    Owner,
    Renewal,
    TokenQuality,
)

T = TypeVar("T")
TOMBSTONE = 60.0
POLL = 0.01

CAPABILITIES = Capabilities(
    fair=False,
    shared=False,
    push_wakeup=False,
    explicit_owner=False,
    lock_delay=False,
    token_quality=TokenQuality.BEST_EFFORT,
    ends_by="ttl",
)


class Clock(Protocol):
    def now(self) -> float: ...


class Directory:
    """The store: every verb is one step under the file's lock."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def change(self, name: str, verb: Callable[[dict[str, Any], float], T]) -> T:
        """Read the record of a name, let the verb change the record, and write it back."""
        # A long name becomes several path components, because file names are limited to 255 bytes.
        encoded = quote(name, safe="")
        file = self.path / "/".join(encoded[i : i + 200] for i in range(0, len(encoded), 200))
        file = file.with_name(file.name + ".lock")
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a+") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            handle.seek(0)
            text = handle.read()
            record: dict[str, Any] = json.loads(text) if text else {"token": 0, "gone": {}}
            now = time.clock_gettime(time.CLOCK_BOOTTIME)
            record["gone"] = {one: end for one, end in record["gone"].items() if end > now}
            if record.get("id") and record["until"] <= now:
                record["id"] = None
            answer = verb(record, now)
            handle.truncate(0)
            handle.write(json.dumps({"name": name, **record}))
        return answer

    def try_acquire(self, claim: Claim) -> Grant | Held:
        def verb(record: dict[str, Any], now: float) -> Grant | Held:
            if record.get("id") != claim.id:
                closed_until = record.get("closed_until", 0.0)
                if record.get("id") or now < closed_until or claim.id in record["gone"]:
                    return Held(holders(record, now), 1, POLL, closing(record, now))
                token = max(record["token"] + 1, int(time.time() * 1e6))
                record.update(id=claim.id, owner=claim.owner, token=token, since=now)
                record["closed_until"] = now + claim.min_hold
            record["until"] = now + claim.ttl
            return Grant(claim, record["token"], claim.ttl)

        return self.change(claim.name, verb)

    def renew(self, grant: Grant) -> Renewal:
        def verb(record: dict[str, Any], now: float) -> Renewal:
            if record.get("id") != grant.claim.id:
                is_broken = record.get("broken") == grant.claim.id
                return Renewal.BROKEN if is_broken else Renewal.LOST
            record["until"] = now + grant.ttl
            return Renewal.RENEWED

        return self.change(grant.claim.name, verb)

    def end(self, claim: Claim, *, tombstone: bool) -> bool:
        def verb(record: dict[str, Any], now: float) -> bool:
            was_ours = record.get("id") == claim.id
            if was_ours:
                record["id"] = None
            if tombstone:
                record["gone"][claim.id] = now + max(claim.ttl, TOMBSTONE)
            return was_ours

        return self.change(claim.name, verb)

    def break_(self, name: str, token: int | None) -> tuple[Holder, ...]:
        def verb(record: dict[str, Any], now: float) -> tuple[Holder, ...]:
            broken = holders(record, now) if token in (None, record["token"]) else ()
            if broken:
                record.update(broken=record["id"], id=None, closed_until=0.0)
            return broken

        return self.change(name, verb)

    def inspect(self, name: str) -> Inspection:
        def verb(record: dict[str, Any], now: float) -> Inspection:
            held, closed = holders(record, now), closing(record, now)
            return Inspection(name, 1, held, (), record["token"] or None, closed)

        return self.change(name, verb)

    def survey(self, prefix: str) -> list[Inspection]:
        names = [
            unquote(str(file.relative_to(self.path))[: -len(".lock")].replace("/", ""))
            for file in self.path.rglob("*.lock")
        ]
        found = [self.inspect(one) for one in names if one.startswith(prefix)]
        return sorted((one for one in found if one.is_in_use), key=lambda one: one.name.encode())


def holders(record: dict[str, Any], now: float) -> tuple[Holder, ...]:
    if not record.get("id"):
        return ()
    owner = Owner.from_text(record["owner"])
    return (Holder(owner, record["token"], 1, now - record["since"], record["until"] - now),)


def closing(record: dict[str, Any], now: float) -> tuple[Closing, ...]:
    """Return the closing if the name is free but its last holder's min_hold is not over."""
    if record.get("id") or record.get("closed_until", 0.0) <= now:
        return ()
    return (Closing(Owner.from_text(record["owner"]), 1, record["closed_until"] - now),)


class DirectoryBackend(Backend):
    """The sync flavour."""

    capabilities = CAPABILITIES
    min_ttl = 0.05

    def __init__(self, path: Path, *, clock: Clock) -> None:
        self.location = str(path)
        self._directory = Directory(path)
        self._clock = clock

    def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
        return self._directory.try_acquire(claim)

    def renew(self, grants: Sequence[Grant], *, deadline: float) -> Sequence[Renewal]:
        return [self._directory.renew(grant) for grant in grants]

    def release(self, grant: Grant, *, deadline: float, tombstone: bool) -> bool:
        return self._directory.end(grant.claim, tombstone=tombstone)

    def withdraw(self, claim: Claim, *, deadline: float, tombstone: bool) -> None:
        self._directory.end(claim, tombstone=tombstone)

    def wait(self, claim: Claim, *, deadline: float) -> None:
        time.sleep(max(0.0, min(POLL, deadline - self._clock.now())))

    def wake(self, claim: Claim) -> None: ...

    def inspect(self, name: str, *, deadline: float) -> Inspection:
        return self._directory.inspect(name)

    def survey(self, prefix: str, *, deadline: float) -> Iterator[Inspection]:
        yield from self._directory.survey(prefix)

    def break_(
        self, name: str, *, token: int | None = None, owner: str | None = None, deadline: float
    ) -> tuple[Holder, ...]:
        return self._directory.break_(name, token)

    def diagnose(self, *, deadline: float) -> Sequence[Finding]:
        return [Finding("note", "example", "a directory of JSON files, to learn from")]

    def disown(self, client: str, *, deadline: float) -> None: ...

    def close(self) -> None: ...


class AsyncDirectoryBackend(AsyncBackend):
    """The asyncio flavour. Its file work is short, so it is done in the loop."""

    capabilities = CAPABILITIES
    min_ttl = 0.05

    def __init__(self, path: Path, *, clock: Clock) -> None:
        self.location = str(path)
        self._directory = Directory(path)
        self._clock = clock

    async def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
        return self._directory.try_acquire(claim)

    async def renew(self, grants: Sequence[Grant], *, deadline: float) -> Sequence[Renewal]:
        return [self._directory.renew(grant) for grant in grants]

    async def release(self, grant: Grant, *, deadline: float, tombstone: bool) -> bool:
        return self._directory.end(grant.claim, tombstone=tombstone)

    async def withdraw(self, claim: Claim, *, deadline: float, tombstone: bool) -> None:
        self._directory.end(claim, tombstone=tombstone)

    async def wait(self, claim: Claim, *, deadline: float) -> None:
        await asyncio.sleep(max(0.0, min(POLL, deadline - self._clock.now())))

    def wake(self, claim: Claim) -> None: ...

    async def inspect(self, name: str, *, deadline: float) -> Inspection:
        return self._directory.inspect(name)

    async def survey(self, prefix: str, *, deadline: float) -> AsyncIterator[Inspection]:
        for one in self._directory.survey(prefix):
            yield one

    async def break_(
        self, name: str, *, token: int | None = None, owner: str | None = None, deadline: float
    ) -> tuple[Holder, ...]:
        return self._directory.break_(name, token)

    async def diagnose(self, *, deadline: float) -> Sequence[Finding]:
        return [Finding("note", "example", "a directory of JSON files, to learn from")]

    async def disown(self, client: str, *, deadline: float) -> None: ...

    async def aclose(self) -> None: ...
