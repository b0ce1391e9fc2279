"""A run in a separate process: `one_run.py FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

from challenge.one_redis import one_redis

from lockfast_challenge.outcome import Setting
from lockfast_challenge.runs.run import run

if __name__ == "__main__":
    with one_redis(3) as deployment:
        setting = Setting("redis", "lockfast", "lock", 3, 1, 600.0, 1.0, ("holder-frozen",))
        run(setting, deployment, folder=Path(sys.argv[1]))
