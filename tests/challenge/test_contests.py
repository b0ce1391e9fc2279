"""Runs with many names side by side, each with its own clients, workload and faults."""

from __future__ import annotations

from collections import defaultdict

import pytest
from challenge.one_redis import one_redis

from lockfast_challenge.checker.judge import judge
from lockfast_challenge.clients.fleet import number_of
from lockfast_challenge.faults.on_servers import ServerFault
from lockfast_challenge.outcome import Exemption, Outcome, Setting
from lockfast_challenge.runs.archive import kept
from lockfast_challenge.runs.plan import plans
from lockfast_challenge.runs.run import Enough, RunProgress, run

NAMES, CLIENTS = 3, 2
WORKLOADS = ("guarded-counter", "read-write", "short-lock")


@pytest.fixture(name="deployment")
def _deployment():
    with one_redis(NAMES * CLIENTS) as one:
        yield one


def setting(*faults: str, seconds: float = 600.0) -> Setting:
    return Setting(
        "redis", "lockfast", "mixed", CLIENTS, 1, seconds, 1.0, faults,
        names=NAMES, workloads=WORKLOADS,
    )  # fmt: skip


def clients_by_name(outcome: Outcome) -> dict[str, set[int]]:
    found: defaultdict[str, set[int]] = defaultdict(set)
    for event in outcome.events:
        found[event.name].add(number_of(event.client))
    return found


def test_each_name_has_its_own_clients_and_is_struck_by_its_own_faults(deployment, tmp_path):
    def tell(_: RunProgress) -> None:
        """End the run when a client of each name has been killed and was replaced."""
        lives = {number_of(one.stem) // CLIENTS for one in tmp_path.glob("*.1.jsonl")}
        if len(lives) == NAMES:
            raise Enough

    asked = setting("holder-killed")
    outcome = run(asked, deployment, folder=tmp_path, progress=tell)

    assert outcome.verdict == "valid", outcome.findings
    by_name = clients_by_name(outcome)
    assert sorted(map(sorted, by_name.values())) == [[0, 1], [2, 3], [4, 5]]
    assert {strike.name for strike in outcome.strikes} == set(by_name)
    for strike in outcome.strikes:
        struck = int(strike.target.split(",")[0].removeprefix("client "))
        assert struck in by_name[strike.name]


def test_a_run_of_many_names_is_judged_again_name_by_name(deployment, tmp_path):
    def tell(now: RunProgress) -> None:
        if "overlap" in now.wrong:
            raise Enough

    outcome = run(
        setting("holder-frozen-briefly"),
        deployment,
        make="challenge.odd_contenders:LetsAllIn",
        folder=tmp_path,
        progress=tell,
    )

    again, recorded, _ = kept(tmp_path)
    found = [finding for one in recorded.values() for finding in judge(one)]
    assert again == outcome.setting
    assert sorted(recorded) == sorted(clients_by_name(outcome))
    assert sorted(found, key=lambda one: one.at) == outcome.findings


def test_a_fault_of_the_servers_strikes_all_names_and_each_recovers(deployment, tmp_path):
    """No stretch counts as quiet in which the servers were struck."""

    class Struck(type(deployment)):
        def faults(self) -> list[ServerFault]:
            return [ServerFault("server-gone", (0.1, 0.2), lambda _: "the server")]

    asked = setting("server-gone", "holder-frozen-briefly", seconds=3.0)
    outcome = run(asked, Struck(deployment.url, deployment.proxies), folder=tmp_path)

    assert outcome.verdict == "valid", outcome.findings
    [first, *_] = [one for one in outcome.strikes if one.kind == "server-gone"]
    assert first.name == ""
    for recorded in kept(tmp_path)[1].values():
        assert first in recorded.strikes
        assert all(end <= first.began or begin >= first.ended for begin, end in recorded.quiets)
        assert any(begin >= first.ended for begin, _ in recorded.quiets)


def test_a_jump_of_the_clock_is_recorded_with_the_move_that_puts_it_right(deployment, tmp_path):
    class Jumps(type(deployment)):
        exemptions = (Exemption("clock-jump", "overlap", "it may", clock="ahead"),)

        def faults(self) -> list[ServerFault]:
            return [ServerFault("clock-jump", begins=lambda _: "it", jumps=lambda _: -3.0)]

    asked = setting("clock-jump", seconds=1.0)
    outcome = run(asked, Jumps(deployment.url, deployment.proxies), folder=tmp_path)

    [strike, *_] = outcome.strikes
    back, ahead = strike.clock_moves
    assert (back.seconds, ahead.seconds) == (-3.0, 3.0)
    assert (back.direction, ahead.direction) == ("back", "ahead")
    assert strike.began <= back.since <= back.until <= ahead.since <= ahead.until <= strike.ended
    for recorded in kept(tmp_path)[1].values():
        assert list(recorded.strikes) == outcome.strikes
        assert tuple(recorded.exemptions) == Jumps.exemptions


def test_a_mixture_gives_each_name_a_workload_and_some_names_long_leases():
    asked = Setting(
        "redis", "lockfast", "mixed", 2, 1, 1.0, 2.0, (), names=3, workloads=("lock", "long-lease")
    )

    found = plans(asked, name="n")

    assert [(one.name, one.workload_name, one.ttl) for one in found] == [
        ("n-0", "lock", 2.0),
        ("n-1", "long-lease", 8.0),
        ("n-2", "lock", 2.0),
    ]
    assert found[1].unit > 2.4  # a fault outlasts the 2.5 s for which a pushed grant is trusted
