"""Eight clients on five nodes, while nodes and clients are killed, frozen and emptied at random.

Never more than a minority of the nodes is away or does not count: that is what Redlock needs. What
the clients saw is judged by the checker of `holdfast.challenge`. The short form is a test; the
long one, for so many seconds and with a seed:

    python tests/backends/redlock/faults/hostile.py 180 7
"""

from __future__ import annotations

import asyncio
import itertools
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    ROOT = Path(__file__).parents[3]
    sys.path[:0] = [str(ROOT), str(ROOT / "shared")]

import redis

from holdfast import AsyncLocks, LockError, Locks
from holdfast.challenge.checker.holds import Hold, definite_holds
from holdfast.challenge.checker.sweep import Violation, violations
from holdfast.challenge.eventually import eventually
from holdfast.challenge.history import Event, operations, read
from holdfast.challenge.servers.redlock import RedlockNodes

CLIENTS = 8
NAMES = ("door", "gate")
TTL, MAX_TTL = 1.0, 1.5
MOST_AWAY = 2


# -- a client --------------------------------------------------------------------------------


class Diary:
    """What one client does and sees, written down before it goes on."""

    def __init__(self, path: Path) -> None:
        self._client = path.name
        self._file = path.open("ab", buffering=0)
        self._numbers = itertools.count(1)
        self._hold = 0

    def begin(self, act: Any, name: str) -> Any:
        """Return what is called with the outcome."""
        number = next(self._numbers)
        if act == "acquire":
            self._hold = number
        about = {"client": self._client, "act": act, "number": number, "hold": self._hold}

        def write(phase: Any, token: int | None = None) -> None:
            now = time.clock_gettime(time.CLOCK_BOOTTIME)
            line = Event(at=now, phase=phase, name=name, token=token, **about).line()
            self._file.write(line.encode() + b"\n")

        write("invoked")
        return write


async def play(url: str, path: Path, *, is_sync: bool) -> None:
    """Take the names in turn, for ever; of the sync flavour each call blocks, which is no harm."""
    diary, chance = Diary(path), random.Random(path.name)  # noqa: S311 - no secrets
    made: Any = (Locks if is_sync else AsyncLocks)(url, ttl=TTL, request_timeout=2.0)

    async def answer(said: Any) -> Any:
        return said if is_sync else await said

    async def noted(act: str, name: str, call: Any) -> Any:
        told = diary.begin(act, name)
        try:
            found = await answer(call())
        except LockError:
            # Of an acquire it is known that nothing is held; of a check, that it must stop.
            told("unknown" if act == "release" else "fail")
            return None
        told("ok", token=getattr(found, "token", None))
        return found or True

    while True:
        name = chance.choice(NAMES)
        lease = await noted("acquire", name, partial(made.lock(name).acquire, timeout=1))
        if lease is None:
            continue
        ends = time.monotonic() + chance.random() * chance.choice([0.02, 0.2])
        check = partial(checked, lease, is_sync=is_sync)
        while await noted("check", name, check):
            if time.monotonic() > ends:
                await noted("release", name, lease.release)
                break
            await asyncio.sleep(0.005)


def checked(lease: Any, *, is_sync: bool) -> Any:
    """Ask the lease; an answer to be awaited where the flavour has such."""
    lease.check()
    return None if is_sync else asyncio.sleep(0)


# -- who is against them ---------------------------------------------------------------------


class Trial:
    """The nodes, the clients, and what is done to both."""

    def __init__(self, nodes: RedlockNodes, folder: Path, *, seed: int) -> None:
        self._nodes = nodes
        self._folder = folder
        self._chance = random.Random(seed)  # noqa: S311 - no secrets
        self._away: dict[int, float] = {}
        """The nodes that do not count, and when they are to be let go on."""
        self._clients: list[subprocess.Popen[bytes]] = []
        self._asleep: dict[subprocess.Popen[bytes], float] = {}
        self.done: Counter[str] = Counter()

    def begin(self) -> None:
        for _ in range(CLIENTS):
            self._clients.append(self._start())

    def step(self) -> None:
        """Do one thing, to a node or to a client."""
        time.sleep(self._chance.uniform(0.02, 0.2))
        self._let_go_on()
        what = self._chance.choice([self._kill, self._stop, self._empty, self._freeze, self._end])
        what()

    def end(self) -> None:
        for one in self._clients:
            one.kill()
            one.wait()
        for one in self._nodes:
            if one.is_running:
                one.resume()

    def holds(self) -> list[Hold]:
        """Return what the clients saw of it until now."""
        return definite_holds(operations(self._events()))

    def _events(self) -> Iterator[Event]:
        for path in sorted(self._folder.iterdir()):
            yield from read(path.read_text(encoding="utf-8").splitlines())

    # -- nodes -------------------------------------------------------------------------

    def _victim(self) -> int | None:
        """Return a node that may go away, if one may."""
        if len(self._away) >= MOST_AWAY:
            return None
        return self._chance.choice([i for i in range(5) if i not in self._away])

    def _kill(self) -> None:
        self._take_away("kill", lambda node: node.kill(), within=1.0)

    def _stop(self) -> None:
        self._take_away("stop", lambda node: node.pause(), within=2.0)

    def _empty(self) -> None:
        self._take_away("empty", flush, within=0.0)

    def _take_away(self, what: str, act: Any, *, within: float) -> None:
        victim = self._victim()
        if victim is not None:
            self._away[victim] = time.monotonic() + self._chance.uniform(0.0, within)
            act(self._nodes[victim])
            self.done[what] += 1

    def _let_go_on(self) -> None:
        now = time.monotonic()
        for number, until in list(self._away.items()):
            if now < until:
                continue
            node = self._nodes[number]
            if node.is_running:
                node.resume()
            else:
                node.start()
            if counts(node):
                del self._away[number]

    # -- clients -----------------------------------------------------------------------

    def _start(self) -> subprocess.Popen[bytes]:
        path = self._folder / f"{len(list(self._folder.iterdir()))}"
        path.touch()
        flavour = self._chance.choice(["sync", "async"])
        url = f"{self._nodes.url}?max_ttl={MAX_TTL}"
        return subprocess.Popen([sys.executable, __file__, "client", url, str(path), flavour])

    def _freeze(self) -> None:
        now = time.monotonic()
        for one, until in list(self._asleep.items()):
            if now > until:
                one.send_signal(signal.SIGCONT)
                del self._asleep[one]
        one = self._chance.choice(self._clients)
        if len(self._asleep) < CLIENTS // 2 and one not in self._asleep:
            one.send_signal(signal.SIGSTOP)
            self._asleep[one] = now + self._chance.uniform(0.0, 2 * TTL)
            self.done["freeze"] += 1

    def _end(self) -> None:
        if self._chance.random() < 0.7:  # a new one takes a while to come
            return
        which = self._chance.randrange(CLIENTS)
        one = self._clients[which]
        self._asleep.pop(one, None)
        one.kill()
        one.wait()
        self._clients[which] = self._start()
        self.done["end"] += 1


def flush(node: Any) -> None:
    with node.client() as client:
        client.flushall()


def counts(node: Any) -> bool:
    """Whether clients count the node; not while nobody has let it."""
    with suppress(redis.RedisError), node.client(socket_timeout=5) as client:
        return bool(client.hget("holdfast:redlock:node", "counts") == b"1")
    return False


def tried(
    nodes: RedlockNodes, folder: Path, *, seconds: float, seed: int, enough: int
) -> tuple[list[Hold], list[Violation], Counter[str]]:
    """Return what was held, what is wrong with that, and what was done against it."""
    nodes.found(["holdfast"], max_ttl=MAX_TTL)
    trial = Trial(nodes, folder, seed=seed)
    try:
        trial.begin()
        eventually(lambda: len(trial.holds()) > CLIENTS, what="the clients have begun")
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            trial.step()

        def is_enough() -> bool:
            trial.step()
            return len(trial.holds()) >= enough

        eventually(is_enough, what=f"{enough} leases")
    finally:
        trial.end()
    holds = trial.holds()
    return holds, violations(holds), trial.done


def main() -> None:
    if sys.argv[1] == "client":
        _, _, url, path, flavour = sys.argv
        asyncio.run(play(url, Path(path), is_sync=flavour == "sync"))
    with RedlockNodes() as nodes, tempfile.TemporaryDirectory() as folder:
        seconds, seed = float(sys.argv[1]), int(sys.argv[2])
        holds, wrong, done = tried(nodes, Path(folder), seconds=seconds, seed=seed, enough=100)
    print(f"{len(holds)} leases, {len(wrong)} violations, {dict(done)}")  # noqa: T201
    for one in wrong:
        print(one)  # noqa: T201


if __name__ == "__main__":
    main()
