"""`pip install lockfast`, and nothing else: which stores that is enough for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest
from servers import etcd, memcached, redis, redis_cluster, redis_sentinels, redlock

ROOT = Path(__file__).parents[2]

PROGRAM = """
import asyncio, importlib.metadata, json, sys
from lockfast import AsyncLocks, Locks

def cycle(url):
    with Locks(url, request_timeout=20) as locks:
        lease = locks.lock("alone").acquire(timeout=60)
        assert locks.inspect("alone").holders
        lease.renew()
        lease.release()
        assert not locks.inspect("alone").holders

async def async_cycle(url):
    async with AsyncLocks(url, request_timeout=20) as locks:
        lease = await locks.lock("alone").acquire(timeout=60)
        assert (await locks.inspect("alone")).holders
        await lease.renew()
        await lease.release()
        assert not (await locks.inspect("alone")).holders

for url in sys.argv[1:]:
    cycle(url)
    asyncio.run(async_cycle(url))
imported = {name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names
print(json.dumps({
    "installed": sorted(one.name for one in importlib.metadata.distributions()),
    "imported": sorted(one for one in imported if not one.startswith("__")),
    "from": sys.modules["lockfast"].__file__,
}))
"""


def run(*command: str | Path) -> str:
    # Neither this run's packages nor a developer's store may be found.
    environment = {name: os.environ[name] for name in os.environ if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(one) for one in command],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=150,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the interpreter of a new environment in which only the built wheel is installed."""
    folder = tmp_path_factory.mktemp("alone")
    run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "-o", folder, ROOT)
    [wheel] = folder.glob("*.whl")
    venv.create(folder / "venv")
    python = folder / "venv" / "bin" / "python"
    install = "--quiet", "install", "--no-index", "--no-deps", "--no-compile"
    run(sys.executable, "-m", "pip", "--python", python, *install, wheel)
    return python


def test_every_store_without_a_driver_works(python: Path, tmp_path: Path) -> None:
    """A lock is taken, renewed and released in both flavours, on real servers."""
    nodes = redlock.shared_nodes()
    nodes.found(["lockfast"])
    servers: list[Any] = [
        redis.shared_server(),
        redis_sentinels.shared_sentinels(),
        redis_cluster.shared_cluster(),
        nodes,
        etcd.shared_server(),
        memcached.shared_server(),
    ]

    told = json.loads(
        run(python, "-c", PROGRAM, f"sqlite://{tmp_path}/locks.db", *(one.url for one in servers))
    )

    assert told["installed"] == ["lockfast"]
    assert told["imported"] == ["lockfast"]
    assert Path(told["from"]).is_relative_to(python.parents[1])
