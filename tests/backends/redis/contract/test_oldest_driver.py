"""The oldest redis-py that the extra allows works as well as the newest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]
CONTRACT = str(ROOT / "tests" / "backends" / "redis" / "contract" / "test_single.py")
OLDEST = ROOT / ".venv" / "oldest-driver"


def test_the_contract_holds_with_the_oldest_driver() -> None:
    """The test fails unless `make` has installed redis-py 5.0.0 in its own directory."""
    environment = {**os.environ, "PYTHONPATH": str(OLDEST)}
    version = subprocess.run(
        [sys.executable, "-c", "import redis; print(redis.__version__)"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert version.stdout.strip() == "5.0.0"

    # Run only the laws that involve the connection: the other laws do not depend on the driver.
    laws = "law_01 or law_02 or law_05 or law_06 or law_10 or law_14"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", laws, CONTRACT],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-4000:]
