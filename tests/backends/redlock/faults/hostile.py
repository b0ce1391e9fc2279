"""Eight clients on five nodes, while nodes and clients are killed, frozen and emptied at random.

At any time only a minority of the nodes is away or does not count, as Redlock requires. The checker
of `lockfast_challenge` judges the leases that the clients saw. A short run is a test; a long run
takes a number of seconds and a seed:

    python tests/backends/redlock/faults/hostile.py 180 7
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

if __name__ == "__main__":
    ROOT = Path(__file__).parents[3]
    sys.path[:0] = [str(ROOT), str(ROOT / "shared")]

import redis

from lockfast_challenge.checker.exclusion import Violation, violations
from lockfast_challenge.checker.holds import CertainHold, definite_holds
from lockfast_challenge.clients.fleet import Fleet
from lockfast_challenge.clients.fork_server import Order
from lockfast_challenge.history import operations
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.redlock import RedlockNodes

CLIENTS = 8
NAMES = ("door", "gate")
TTL, MAX_TTL = 1.0, 1.5
MOST_AWAY = 2


class Trial:
    """Nodes and clients, and the faults that are injected into both."""

    def __init__(self, nodes: RedlockNodes, folder: Path, *, seed: int) -> None:
        self._nodes = nodes
        self._chance = random.Random(seed)  # noqa: S311 - no secrets
        self._away: dict[int, float] = {}
        """The nodes that do not count, and when each may resume."""
        self._fleet = Fleet(CLIENTS, folder, self._order)
        self._asleep: dict[int, float] = {}
        """The clients that are frozen, and when each may resume."""
        self.done: Counter[str] = Counter()

    def __enter__(self) -> Self:
        self._fleet.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._fleet.__exit__()
        for one in self._nodes:
            if one.is_running:
                one.resume()

    def step(self) -> None:
        """Inject one fault into a node or a client."""
        time.sleep(self._chance.uniform(0.02, 0.2))
        self._let_go_on()
        what = self._chance.choice([self._kill, self._stop, self._empty, self._freeze, self._end])
        what()

    def holds(self) -> list[CertainHold]:
        """Return the holds that the clients have seen so far."""
        self._fleet.look()
        return definite_holds(operations(self._fleet.events))

    # -- nodes -------------------------------------------------------------------------

    def _victim(self) -> int | None:
        """Return the number of a node that may be taken away; None if too many are away already."""
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

    def _order(self, number: int, client: str, diary: Path, last_words: Path) -> Order:
        flavour = self._chance.choice(["Sync", "Async"])
        return Order(
            client=client,
            make=f"lockfast_challenge.clients.lockfast_locks:{flavour}Contender",
            url=f"{self._nodes.url}?max_ttl={MAX_TTL}",
            names=NAMES,
            workload="lock",
            ttl=TTL,
            seed=number,
            diary=str(diary),
            last_words=str(last_words),
            resource="",
        )

    def _freeze(self) -> None:
        now = time.monotonic()
        for one, until in list(self._asleep.items()):
            if now > until:
                self._fleet.thaw(one)
                del self._asleep[one]
        one = self._chance.randrange(CLIENTS)
        if len(self._asleep) < CLIENTS // 2 and one not in self._asleep:
            self._fleet.freeze(one)
            self._asleep[one] = now + self._chance.uniform(0.0, 2 * TTL)
            self.done["freeze"] += 1

    def _end(self) -> None:
        if self._chance.random() < 0.7:  # a new client takes a while to start
            return
        one = self._chance.randrange(CLIENTS)
        self._asleep.pop(one, None)
        self._fleet.kill(one)
        self.done["end"] += 1


def flush(node: Any) -> None:
    with node.client() as client:
        client.flushall()


def counts(node: Any) -> bool:
    """Return whether a client has admitted the node, so that all clients count it."""
    with suppress(redis.RedisError), node.client(socket_timeout=5) as client:
        return bool(client.hget("lockfast:redlock:node", "counts") == b"1")
    return False


def tried(
    nodes: RedlockNodes, folder: Path, *, seconds: float, seed: int, enough: int
) -> tuple[list[CertainHold], list[Violation], Counter[str]]:
    """Run a trial; return its holds, their violations, and the faults that were injected."""
    nodes.found(["lockfast"], max_ttl=MAX_TTL)
    with Trial(nodes, folder, seed=seed) as trial:
        eventually(lambda: len(trial.holds()) > CLIENTS, what="the clients have begun")
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            trial.step()

        def is_enough() -> bool:
            trial.step()
            return len(trial.holds()) >= enough

        eventually(is_enough, what=f"{enough} leases")
    holds = trial.holds()
    return holds, violations(holds), trial.done


def main() -> None:
    with RedlockNodes() as nodes, tempfile.TemporaryDirectory() as folder:
        seconds, seed = float(sys.argv[1]), int(sys.argv[2])
        holds, wrong, done = tried(nodes, Path(folder), seconds=seconds, seed=seed, enough=100)
    print(f"{len(holds)} leases, {len(wrong)} violations, {dict(done)}")  # noqa: T201
    for one in wrong:
        print(one)  # noqa: T201


if __name__ == "__main__":
    main()
