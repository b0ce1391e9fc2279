"""A Celery shop: `celery -A shop_of_tasks worker` runs tasks; as a program, it sends them.

Broker and results are files, so that no server is needed; the serializer is Celery's default. The
broker is a database file: from a folder, Celery may read a half-written message, and exit.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable

from celery import Celery
from celery.result import AsyncResult
from kombu.transport.sqlalchemy import Transport

import lockfast

PLACE = os.environ["SHOP"]
PATIENCE = 60.0

app = Celery("shop", broker=f"sqla+sqlite:///{PLACE}/queue.db", backend=f"file://{PLACE}/results")
app.conf.broker_transport_options = {"connect_args": {"timeout": PATIENCE}}
Transport.polling_interval = 0.05  # as a transport option it would be passed on to SQLAlchemy
locks = lockfast.Locks(f"sqlite://{PLACE}/locks.db", label="celery")


@app.task(name="pay")
@locks.locked("order:{order_id}", if_held="raise")
def pay(order_id: int) -> str:
    return f"paid {order_id}"


@app.task(
    name="pay_later",
    autoretry_for=(lockfast.NotAcquired,),
    retry_kwargs={"countdown": 0.1},
    max_retries=None,
)
@locks.locked("order:{order_id}", if_held="raise")
def pay_later(order_id: int) -> str:
    return f"paid {order_id}"


@app.task(name="lose")
def lose() -> None:
    with locks.lock("lost") as lease:
        locks.break_("lost")
        lease.check()


def main() -> None:
    """Send tasks as an application does, and print the results."""
    told: dict[str, object] = {"free": result_of(pay.delay(7))}
    with locks.lock("order:7"):
        told["held"] = failure_of(pay.delay(7), lockfast.AcquireTimeout)
        later = pay_later.delay(7)
        until(lambda: later.state == "RETRY")
    told["retried"] = result_of(later)
    told["lost"] = failure_of(lose.delay(), lockfast.LeaseLost)
    print(json.dumps(told))  # noqa: T201 - the test reads it


def result_of(sent: AsyncResult) -> object:
    return sent.get(timeout=PATIENCE, interval=0.05)


def failure_of(sent: AsyncResult, kind: type[Exception]) -> str:
    try:
        result_of(sent)
    except kind as error:
        return f"{type(error).__name__}: {error}"
    return "nothing was raised"


def until(has_happened: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not has_happened():
        assert time.monotonic() < end
        time.sleep(0.05)


if __name__ == "__main__":
    main()
