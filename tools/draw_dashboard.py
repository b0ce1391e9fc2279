"""Draw the dashboard of `lockfast.observe.dashboard()`: docs/images/dashboard.svg.

    tools/draw_dashboard.py

A shop uses locks on a real Redis for three minutes, and a real Prometheus scrapes it. Then the
dashboard's queries are run on Prometheus, and the results are drawn. Meanwhile Redis stalls for a
while, an operator breaks leases, and a holder is stuck.
"""

from __future__ import annotations

import json
import logging
import random
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from prometheus_client import CollectorRegistry, start_http_server

from dashboard_picture import Answers, Span, picture
from lockfast import LockError, Locks, observe
from lockfast_challenge.servers.redis import RedisServer

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "tests"))

from servers.prometheus import PrometheusServer, as_grafana_asks  # noqa: E402 - from the tests

PICTURE = ROOT / "docs" / "images" / "dashboard.svg"
LASTS, STEP, RATE = 180.0, 2.0, "10s"
STANDS_STILL, BREAKS, STUCK = 50.0, 95.0, 125.0
"""When each event happens, in seconds from the start."""
ABOUT = (
    "Nine panels over three minutes: the length of each line, waits, holds, the longest wait, "
    "acquires by outcome, leases held, leases lost by reason, renewal margin, store errors. "
    "At A Redis stands still: store errors, and a lease expires. At B leases are broken. "
    "At C a holder is stuck: the longest wait grows, and acquires time out."
)


class Shop:
    """Threads of two clients that sell, pack and report until stopped."""

    def __init__(self, url: str, registry: CollectorRegistry) -> None:
        hook = observe.prometheus(registry=registry)
        self.clients = [
            Locks(url, ttl=6.0, request_timeout=1.0, on_event=hook, label=one) for one in "ab"
        ]
        self.over = threading.Event()
        self._random = random.Random(1)  # noqa: S311 - only varies how long work takes
        works = [*[self._sell] * 4, *[self._pack] * 6, *[self._report] * 2]
        self._threads = [
            threading.Thread(target=self._again_and_again, args=(work, self.clients[number % 2]))
            for number, work in enumerate(works)
        ]

    def open(self) -> None:
        """Start working."""
        for one in self._threads:
            one.start()

    def close(self) -> None:
        """Finish the current work, and release all leases."""
        self.over.set()
        for one in self._threads:
            one.join()
        for client in self.clients:
            client.close()

    def _again_and_again(self, work: Callable[[Locks], None], locks: Locks) -> None:
        while not self.over.is_set():
            try:
                work(locks)
            except LockError:  # reported by the hook; the next attempt may succeed
                self.over.wait(0.5)

    def _sell(self, locks: Locks) -> None:
        with locks.lock("stock").acquire(timeout=4.0):
            self.over.wait(self._random.uniform(0.01, 0.06))
        self.over.wait(self._random.uniform(0.0, 0.2))

    def _pack(self, locks: Locks) -> None:
        with locks.lock(f"order:{self._random.randrange(4)}"):
            self.over.wait(self._random.expovariate(8.0))
        self.over.wait(self._random.uniform(0.1, 0.3))

    def _report(self, locks: Locks) -> None:
        lease = locks.lock(f"report:{self._random.randrange(3)}").try_acquire()
        if lease is not None:
            with lease:
                self.over.wait(self._random.uniform(10.0, 20.0))
        self.over.wait(1.0)


def three_minutes(redis: RedisServer, shop: Shop) -> Span:
    """Let the shop work, and trigger the events."""
    start = time.time()

    def at(seconds: float) -> float:
        time.sleep(max(0.0, start + seconds - time.time()))
        return time.time()

    shop.open()
    marks = [(at(STANDS_STILL), "A")]
    redis.pause()
    at(STANDS_STILL + 8.0)
    redis.resume()
    marks.append((at(BREAKS), "B"))
    for number in range(3):
        shop.clients[0].break_(f"report:{number}")
    marks.append((at(STUCK), "C"))
    with shop.clients[0].lock("stock"):
        at(STUCK + 15.0)
    return Span(start, at(LASTS), STEP, marks)


def main() -> None:
    """Run the shop, query Prometheus and draw."""
    logging.getLogger("lockfast").addHandler(logging.NullHandler())
    board = json.loads(observe.dashboard())
    registry = CollectorRegistry()
    http, _ = start_http_server(0, addr="127.0.0.1", registry=registry)
    target = f"127.0.0.1:{http.server_port}"
    with RedisServer() as redis, PrometheusServer(target, every="1s") as prometheus:
        shop = Shop(f"redis://{redis.address}", registry)
        try:
            span = three_minutes(redis, shop)
        finally:
            shop.close()
        asked = [one["expr"] for panel in board["panels"] for one in panel["targets"]]
        answers: Answers = {
            one: prometheus.over(
                as_grafana_asks(one, rate=RATE), start=span.start, end=span.end, step=STEP
            )
            for one in asked
        }
    PICTURE.write_text(picture(board, answers, span, about=ABOUT) + "\n", encoding="utf-8")
    print(f"drew {PICTURE.name}")


if __name__ == "__main__":
    main()
