"""What the Celery page claims, tested with a real worker and Celery's default serializer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockfast_challenge.processes import EVENTUALLY_SECONDS

SHOP = Path(__file__).with_name("shop_of_tasks.py")
WORKER = "worker --pool=solo --without-gossip --without-mingle --without-heartbeat"


@pytest.fixture
def shop(tmp_path) -> Iterator[dict[str, str]]:
    """Run a worker; yield the environment for sending tasks to it."""
    (tmp_path / "results").mkdir()
    environment = {**os.environ, "SHOP": str(tmp_path)}
    command = [sys.executable, "-m", "celery", "-A", SHOP.stem, *WORKER.split()]
    with (tmp_path / "worker.log").open("wb") as log:
        worker = subprocess.Popen(
            command, cwd=SHOP.parent, env=environment, stdout=log, stderr=subprocess.STDOUT
        )
    yield environment
    worker.kill()
    worker.wait()


def test_an_error_of_a_task_arrives_as_what_it_is(shop, tmp_path):
    """An error keeps its class and message: JSON keeps no more, and Celery retries by the class."""
    done = subprocess.run(
        [sys.executable, str(SHOP)],
        env=shop,
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * EVENTUALLY_SECONDS,
    )

    assert done.returncode == 0, done.stderr + (tmp_path / "worker.log").read_text()
    told = json.loads(done.stdout)
    held = told.pop("held")
    assert held.startswith("AcquireTimeout: 'order:7' is held")
    assert "(celery)" in held
    assert told == {
        "free": "paid 7",
        "retried": "paid 7",
        "lost": "LeaseLost: lease on 'lost' lost: an operator broke it (broken)",
    }
