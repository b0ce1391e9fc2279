"""Files that another program changed, and the errors with which Lockfast refuses them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import lockfast


def refusal(url: str) -> str:
    """Return the error message with which the first use is refused."""
    with lockfast.Locks(url) as locks, pytest.raises(lockfast.ConfigurationError) as refused:
        locks.lock("door").acquire(timeout=1)
    return str(refused.value)


def change(path: Path, statement: str) -> None:
    """Run a statement on the file, as a program other than Lockfast would."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(statement)
    connection.close()
