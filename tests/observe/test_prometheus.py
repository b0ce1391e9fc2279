"""The metrics as a real Prometheus scrapes them, and the alerts that it fires."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, start_http_server
from servers.prometheus import PrometheusServer

import lockfast
from lockfast import AcquireTimeout, ConfigurationError, Locks, observe
from lockfast.client._sync import dispatch
from lockfast.observe.prometheus_metrics import PrometheusMetrics
from lockfast_challenge.processes import eventually

SHIPPED = Path(observe.__file__).parent / "shipped"
LABELS = {"pattern": "order:*", "kind": "lock", "store": "memory"}


@pytest.fixture
def registry():
    return CollectorRegistry()


def of(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(name, {**LABELS, **labels})


def test_every_acquire_is_counted_by_its_outcome_and_its_pattern(registry):
    hook = observe.prometheus(registry=registry)
    with Locks("memory://", on_event=hook) as locks:
        for number in range(5):
            with locks.lock(f"order:{number}"):
                pass
        lease = locks.lock("order:7").acquire()

        def ask() -> None:
            assert locks.lock("order:7").try_acquire() is None
            with pytest.raises(AcquireTimeout):
                locks.lock("order:7").acquire(timeout=0.01)

        asking = threading.Thread(target=ask)
        asking.start()
        asking.join()
        eventually(lambda: of(registry, "lockfast_leases_held") == 1)
        lease.release()

    total = "lockfast_acquisitions_total"
    assert of(registry, total, outcome="acquired") == 6
    assert of(registry, total, outcome="skipped") == 1
    assert of(registry, total, outcome="timed_out") == 1
    assert of(registry, "lockfast_wait_seconds_count") == 7
    assert of(registry, "lockfast_hold_seconds_count") == 6
    assert of(registry, "lockfast_hold_seconds_bucket", le="+Inf") == 6
    assert of(registry, "lockfast_leases_held") == 0
    assert of(registry, "lockfast_waiters") == 0


def test_who_waits_is_counted_and_for_how_long(registry):
    with Locks("memory://", on_event=observe.prometheus(registry=registry)) as locks:
        lease = locks.lock("order:1").acquire()
        waiting = threading.Thread(target=lambda: locks.lock("order:1").acquire().release())
        waiting.start()
        eventually(lambda: of(registry, "lockfast_waiters") == 1)
        eventually(lambda: of(registry, "lockfast_longest_wait_seconds") > 0.05)
        lease.release()
        waiting.join()

    assert of(registry, "lockfast_waiters") == 0
    assert of(registry, "lockfast_longest_wait_seconds") == 0


def test_losses_are_counted_by_reason_and_begin_at_nought(registry):
    """If the counters did not begin at 0, Prometheus would see no increase at the first loss."""
    with Locks("memory://", on_event=observe.prometheus(registry=registry)) as locks:
        kept = locks.lock("order:1").acquire()
        eventually(lambda: of(registry, "lockfast_leases_lost_total", reason="broken") == 0)
        locks.break_("order:1")
        eventually(lambda: of(registry, "lockfast_leases_lost_total", reason="broken") == 1)
        assert kept.lost.is_set()
        assert of(registry, "lockfast_leases_held") == 0


def test_raw_names_only_for_who_asks(registry):
    hook = observe.prometheus(registry=registry, raw_names=True)
    with Locks("memory://", on_event=hook) as locks, locks.lock("order:17"):
        pass

    labels = {**LABELS, "pattern": "order:17"}
    assert registry.get_sample_value("lockfast_hold_seconds_count", labels) == 1
    with pytest.raises(ConfigurationError, match="raw_names=False: this registry has a hook"):
        observe.prometheus(registry=registry)


def test_a_registry_has_one_hook_however_often_it_is_asked_for(registry):
    assert observe.prometheus(registry=registry) is observe.prometheus(registry=registry)


def test_an_event_counts_the_same_by_hand(registry):
    hook = observe.prometheus(registry=registry)
    common = {"kind": "lock", "store": "memory", "claim": "c"}
    hook(lockfast.Acquired("order:1", 1, "me", 0.5, **common))
    hook(lockfast.StoreError("", None, "me", "renew", "unknown", store="memory"))
    hook(lockfast.Reconnected("order:1", None, "me", 3.0, store="memory"))

    assert of(registry, "lockfast_leases_held") == 1
    labels = {"store": "memory", "request": "renew", "reason": "unknown"}
    assert registry.get_sample_value("lockfast_store_errors_total", labels) == 1
    assert registry.get_sample_value("lockfast_store_reconnects_total", {"store": "memory"}) == 1


def test_a_forked_child_counts_anew(registry):
    with Locks("memory://", on_event=observe.prometheus(registry=registry)) as locks:
        lease = locks.lock("order:1").acquire()
        eventually(lambda: of(registry, "lockfast_leases_held") == 1)
        child = os.fork()
        if child == 0:
            os._exit(0 if of(registry, "lockfast_leases_held") is None else 1)
        _, status = os.waitpid(child, 0)
        lease.release()

    assert os.waitstatus_to_exitcode(status) == 0


@pytest.fixture
def blocked(registry, monkeypatch):
    """A hook that blocks while its lock is held, with a queue of three events."""
    monkeypatch.setattr(dispatch, "HOOK_QUEUE_MAX", 3)
    return observe.prometheus(registry=registry)


def test_gauges_are_right_again_after_more_happened_than_could_wait(registry, blocked, caplog):
    """The counters lack the dropped events, and the log says how many."""
    with Locks("memory://", on_event=blocked) as locks:
        with blocked.lock:
            before = [locks.lock(f"order:{number}").acquire() for number in range(3)]
            for one in before[1:]:
                one.release()
            after = locks.lock("order:9").acquire()
            waiting = threading.Thread(target=lambda: locks.lock("order:9").acquire().release())
            waiting.start()
            eventually(lambda: locks._client.asking() and locks.inspect("order:9").line)
        eventually(lambda: "has not heard of" in caplog.text)
        eventually(lambda: of(registry, "lockfast_leases_held") == 2)
        eventually(lambda: of(registry, "lockfast_waiters") == 1)

        after.release()
        waiting.join()
        eventually(lambda: of(registry, "lockfast_waiters") == 0)
        eventually(lambda: of(registry, "lockfast_leases_held") == 1)
        before[0].release()
        eventually(lambda: of(registry, "lockfast_leases_held") == 0)


def test_a_client_that_was_closed_holds_nothing_although_nobody_heard_of_it(registry, blocked):
    """The gauges lose the closed client's leases, but not those of a client with the same hook."""
    with Locks("memory://", on_event=blocked) as other, other.lock("order:8"):
        locks = Locks("memory://", on_event=blocked, request_timeout=0.05)
        for number in range(3):
            locks.lock(f"order:{number}").acquire()
            eventually(lambda held=number + 2: of(registry, "lockfast_leases_held") == held)
        with blocked.lock:
            locks.lock("order:9").acquire()
            locks.close()
        eventually(lambda: of(registry, "lockfast_leases_held") == 1)


def test_what_an_interrupt_kept_from_being_told_is_set_right(registry, monkeypatch):
    """A signal's exception may strike between the end of a lease and its event."""
    monkeypatch.setattr(dispatch, "HOOK_RECOUNT_SECONDS", 0.0)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with Locks("memory://", on_event=observe.prometheus(registry=registry)) as locks:
        lease = locks.lock("order:1").acquire()
        eventually(lambda: of(registry, "lockfast_leases_held") == 1)
        with monkeypatch.context() as patch:
            patch.setattr(lease._hold.client, "emit", interrupted)
            with pytest.raises(KeyboardInterrupt):
                lease.release()
        with locks.lock("order:2"):
            eventually(lambda: of(registry, "lockfast_leases_held") == 1)
        eventually(lambda: of(registry, "lockfast_leases_held") == 0)


def test_without_its_package_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.delitem(sys.modules, "lockfast.observe.prometheus_metrics", raising=False)

    with pytest.raises(ConfigurationError, match=r'pip install "lockfast\[prometheus\]"'):
        observe.prometheus()


# -- a real Prometheus ----------------------------------------------------------------------


def test_a_real_prometheus_agrees_with_the_program_and_fires_the_alerts(registry):
    """Eight threads sell a stock; then one lease is lost, and one claim waits too long."""
    hook = observe.prometheus(registry=registry)
    http, serving = start_http_server(0, addr="127.0.0.1", registry=registry)
    target = f"127.0.0.1:{http.server_port}"
    sold, asked = [], []

    def sell(locks: Locks, number: int) -> None:
        for turn in range(25):
            asked.append(1)
            with locks.lock(f"order:{(number + turn) % 3}"):
                sold.append(1)

    rules = SHIPPED / "alert_rules.yml"
    with (
        PrometheusServer(target, rules=[rules]) as server,
        Locks("memory://", ttl=60.0, on_event=hook) as locks,
    ):
        sellers = [threading.Thread(target=sell, args=(locks, n)) for n in range(8)]
        for one in sellers:
            one.start()
        for one in sellers:
            one.join()
        acquired = 'sum(lockfast_acquisitions_total{pattern="order:*",outcome="acquired"})'
        eventually(lambda: server.value(acquired) == len(asked), within=60)
        assert len(sold) == 200
        # After some time: a scrape missed on a busy machine leaves a gap.
        holds, held = "sum(lockfast_hold_seconds_count)", "sum(lockfast_leases_held)"
        eventually(lambda: (server.value(holds), server.value(held)) == (200, 0), within=60)
        assert server.firing() == set()

        lost = locks.lock("order:1").acquire()
        locks.break_("order:1")
        eventually(lambda: "LockfastLeaseLost" in server.firing(), within=60)
        held = locks.lock("order:2").acquire()
        waiting = threading.Thread(target=lambda: locks.lock("order:2").acquire().release())
        waiting.start()
        eventually(lambda: hook.series[("order:*", "lock", "memory")].waiters)
        _stood_for(hook, seconds=61.0)
        eventually(lambda: "LockfastWaiterStandsTooLong" in server.firing(), within=60)
        held.release()
        waiting.join()
        eventually(lambda: "LockfastWaiterStandsTooLong" not in server.firing(), within=60)
        assert lost.lost.is_set()

    http.shutdown()
    http.server_close()
    serving.join()


def _stood_for(hook: PrometheusMetrics, *, seconds: float) -> None:
    """Make every waiter appear to have waited this much longer, to save the test a minute."""
    with hook.lock:
        for series in hook.series.values():
            for claim, (client, since) in series.waiters.items():
                series.waiters[claim] = (client, since - seconds)


def test_the_shipped_alert_rules_fire_when_they_should(tmp_path):
    """Each rule is checked by promtool, before and after the event that the rule is about."""
    for file in (SHIPPED / "alert_rules.yml", Path(__file__).parent / "alert_rules_test.yml"):
        (tmp_path / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "shipped.yml").write_text(observe.alert_rules(), encoding="utf-8")

    done = subprocess.run(
        ["promtool", "test", "rules", str(tmp_path / "alert_rules_test.yml")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "shipped.yml").read_text() == (tmp_path / "alert_rules.yml").read_text()
