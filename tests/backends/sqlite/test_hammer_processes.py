"""Eight processes and a nemesis: holders and waiters are killed, and frozen past their ttl."""

from __future__ import annotations

import itertools
import json
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest
from puppets import environment

import lockfast
from lockfast_challenge.processes import EVENTUALLY_SECONDS, freeze

WORKER = Path(__file__).with_name("worker.py")
CROWD = 8
ROUNDS = 3
"""How often each act is done; the crowd goes on until all acts are done."""

TURNS = 20 * CROWD
"""Minimum number of turns: with fewer turns, the processes would hardly meet."""

TTL = 0.6
NAMES = ("anvil", "bellows", "tongs")
SEED = 20


def now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


# -- what the log means ----------------------------------------------------------------


class Line(NamedTuple):
    kind: str
    worker: int
    name: str
    token: int
    at: float
    trusted_until: float


@dataclass
class Hold:
    """One lease as its holder saw it: when it began, and until when it was trusted."""

    worker: int
    name: str
    token: int
    begin: float
    end: float


def holds_of(log: list[Line], killed: dict[int, float]) -> list[Hold]:
    """Return the trusted holds: each ends by its own report, its local deadline or its death."""
    holds: dict[tuple[str, int], Hold] = {}
    for line in log:
        key = line.name, line.token
        if line.kind == "begin":
            assert key not in holds, f"two begins with one token: {line}"
            holds[key] = Hold(line.worker, *key, line.at, line.trusted_until)
        elif key in holds:
            assert holds[key].worker == line.worker
            holds[key].end = line.at if line.kind == "end" else line.trusted_until
    for hold in holds.values():
        hold.end = min(hold.end, killed.get(hold.worker, hold.end))
    return sorted(holds.values(), key=lambda hold: (hold.name, hold.begin))


def overlaps(holds: list[Hold]) -> list[tuple[Hold, Hold]]:
    """Return all pairs of holds that were trusted on one name at the same time."""
    found = []
    last: dict[str, Hold] = {}
    for hold in holds:
        before = last.get(hold.name)
        if before is not None and hold.begin < before.end:
            found.append((before, hold))
        if before is None or hold.end > before.end:
            last[hold.name] = hold
    return found


def disorders(holds: list[Hold]) -> list[tuple[Hold, Hold]]:
    """Return all pairs of successive holds of a name whose tokens do not grow."""
    return [
        (one, two)
        for one, two in itertools.pairwise(holds)
        if one.name == two.name and one.token >= two.token
    ]


@pytest.mark.parametrize(
    ("log", "killed", "is_caught"),
    [
        ([("begin", 1, "a", 1, 0.0, 5.0), ("end", 1, "a", 1, 1.0, 5.0)], {}, False),
        ([("begin", 1, "a", 1, 0.0, 5.0)], {}, True),
        ([("begin", 1, "a", 1, 0.0, 5.0)], {1: 1.5}, False),
        ([("begin", 1, "a", 1, 0.0, 1.0)], {}, False),
        ([("begin", 1, "a", 1, 0.0, 1.0), ("still", 1, "a", 1, 0.9, 3.0)], {}, True),
        ([("begin", 1, "b", 1, 0.0, 5.0)], {}, False),
    ],
    ids=["ended", "trusted", "killed", "frozen", "renewed", "another name"],
)
def test_the_checker_catches_two_trusted_holders_and_nothing_else(log, killed, is_caught):
    """The checker finds two trusted holders where there are two, and only there."""
    second = Line("begin", 2, "a", 2, 2.0, 6.0)

    found = overlaps(holds_of([*(Line(*one) for one in log), second], killed))

    assert bool(found) is is_caught


def test_the_checker_catches_a_token_that_goes_back():
    """The checker reports a hold whose token is smaller than that of the hold before."""
    holds = [Hold(1, "a", 7, 0.0, 1.0), Hold(2, "a", 6, 2.0, 3.0)]

    assert disorders(holds) == [(holds[0], holds[1])]


# -- the hammer ------------------------------------------------------------------------


@dataclass
class Crowd:
    """The processes, and what was done to them."""

    url: str
    log: Path
    calm_since: float = 0.0
    living: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    killed: dict[int, float] = field(default_factory=dict)
    acts: list[str] = field(default_factory=list)
    _number: int = 0

    def start(self) -> None:
        self._number += 1
        arguments = [str(self._number), str(TTL), *NAMES]
        self.living[self._number] = subprocess.Popen(
            [sys.executable, str(WORKER), "hammer", self.url, str(self.log), *arguments],
            env=environment(),
        )

    def number_of(self, pid: int) -> int | None:
        return next((one for one, process in self.living.items() if process.pid == pid), None)

    def stop(self, number: int) -> None:
        freeze(self.living[number])

    def resume(self, number: int) -> None:
        self.living[number].send_signal(signal.SIGCONT)

    def kill(self, number: int) -> None:
        self.killed[number] = now()
        process = self.living.pop(number)
        process.kill()
        process.wait()

    def read(self) -> list[Line]:
        return [Line(*json.loads(line)) for line in self.log.read_text().splitlines()]

    def turns(self) -> int:
        return sum(line.kind == "end" for line in self.read())

    def served_since_calm(self) -> set[int]:
        return {line.worker for line in self.read() if line.at > self.calm_since}


ACTS = ("kill holder", "kill waiter", "freeze holder")


def torment(crowd: Crowd, locks: lockfast.Locks) -> None:
    chance = random.Random(SEED)  # noqa: S311 - a run can be repeated
    for _ in range(ROUNDS):
        for act in chance.sample(ACTS, len(ACTS)):
            time.sleep(chance.uniform(0.02, 0.2))  # only the moment is random
            number = catch(crowd, locks, act, chance)
            if act == "freeze holder":
                time.sleep(2 * TTL)  # past its ttl, in real time
                crowd.resume(number)
            else:
                crowd.kill(number)
                crowd.start()
            crowd.acts.append(act)


def catch(crowd: Crowd, locks: lockfast.Locks, act: str, chance: random.Random) -> int:
    """Freeze a process in the role that the act needs, and return its number."""

    def first(name: str) -> int | None:
        inspection = locks.inspect(name)
        those = inspection.line if act == "kill waiter" else inspection.holders
        return crowd.number_of(those[0].owner.pid) if those else None

    while True:
        name = chance.choice(NAMES)
        number = first(name)
        if number is None:
            continue
        crowd.stop(number)
        if first(name) == number:
            return number
        crowd.resume(number)


@pytest.fixture(scope="module")
def aftermath(tmp_path_factory) -> Crowd:
    """The crowd after all acts, when all survivors have ended by themselves."""
    directory = tmp_path_factory.mktemp("hammer")
    url = f"sqlite://{directory}/locks.db"
    crowd = Crowd(url, directory / "log")
    try:
        with lockfast.Locks(url) as locks:
            for _ in range(CROWD):
                crowd.start()
            torment(crowd, locks)
            crowd.calm_since = now()
            while now() < crowd.calm_since + EVENTUALLY_SECONDS:
                if crowd.served_since_calm() >= set(crowd.living) and crowd.turns() > TURNS:
                    break
                time.sleep(0.1)
        (directory / "enough").touch()
        for process in crowd.living.values():
            process.wait(timeout=EVENTUALLY_SECONDS)
    finally:
        for process in crowd.living.values():
            if process.poll() is None:
                process.kill()
                process.wait()
    return crowd


def test_the_nemesis_did_its_work(aftermath):
    """Every act was done in every round; otherwise the other tests would prove nothing."""
    counts = [aftermath.acts.count(act) for act in ACTS]

    assert counts == [ROUNDS] * len(ACTS)


def test_killed_and_frozen_processes_never_make_two_trusted_holders(aftermath):
    """Law 2: a frozen or killed process did not trust its lease when the next lease began."""
    holds = holds_of(aftermath.read(), aftermath.killed)

    assert overlaps(holds) == []


def test_tokens_grow_in_the_order_of_holding(aftermath):
    """Law 3: tokens grow over every release, kill and expiry."""
    holds = holds_of(aftermath.read(), aftermath.killed)

    assert disorders(holds) == []


def test_every_survivor_goes_on_to_the_end(aftermath):
    """No process is starved or stuck: each survivor still gets its turn at the end."""
    assert {number: one.returncode for number, one in aftermath.living.items()} == dict.fromkeys(
        aftermath.living, 0
    )
    assert set(aftermath.living) <= aftermath.served_since_calm()
    assert aftermath.turns() > TURNS


def test_nothing_is_left_of_the_dead(aftermath):
    """Dead processes leave no hold, no place in line and no side file behind."""
    with lockfast.Locks(aftermath.url) as locks:
        taken = [locks.lock(name).try_acquire() for name in NAMES]
        lines = [locks.inspect(name).line for name in NAMES]
        files = {one.name for one in aftermath.log.parent.glob("*-clients/*")}
        own = locks._client.id

    assert None not in taken
    assert lines == [()] * len(NAMES)
    assert files == {"boot", f"{own}.client"}
