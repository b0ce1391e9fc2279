"""The suite runs with the code of the requested platform, in child processes too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# A lock in both flavours, one held while another process tries to acquire it.
SHOW = """
import other_platforms  # as the first import of tests/conftest.py
import asyncio, subprocess, sys, tempfile
import lockfast
from lockfast.platforms import here

print(here.NAME)
with tempfile.TemporaryDirectory() as folder:
    url = f"sqlite://{folder}/locks.db"
    ask = f"import lockfast; print(lockfast.Locks({url!r}).lock('door').try_acquire())"
    with lockfast.Locks(url) as locks, locks.lock("door"):
        subprocess.run([sys.executable, "-c", ask], check=True)

    async def again():
        async with lockfast.AsyncLocks(url) as locks, locks.lock("door"):
            print(here.file_system(locks._client.backend._database.connection.path))

    asyncio.run(again())
"""


def shown(platform: str) -> subprocess.CompletedProcess[str]:
    inherited = {one: value for one, value in os.environ.items() if one != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, "-c", SHOW],
        cwd=ROOT / "tests" / "shared",
        env={**inherited, "LOCKFAST_TEST_PLATFORM": platform, "PYTHONUNBUFFERED": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("platform", "lines"),
    [("macos", ["macOS", "None", "apfs"]), ("windows", ["Windows", "None", "fixed drive"])],
)
def test_every_process_of_a_test_is_in_the_same_disguise(platform, lines):
    """An undisguised second process would think that the file belongs to another kernel."""
    done = shown(platform)

    assert done.stderr == ""
    assert done.stdout.splitlines() == lines


def test_a_platform_that_there_is_not_is_refused_with_those_that_there_are():
    assert "LOCKFAST_TEST_PLATFORM=beos: it is one of macos, windows" in shown("beos").stderr
