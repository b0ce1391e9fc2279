"""A sync program does not import asyncio, which would slow down its start."""

from __future__ import annotations

import subprocess
import sys

import pytest

# None in sys.modules makes Python treat the module as missing.
WITHOUT = "import sys; sys.modules['asyncio'] = None\n"


@pytest.mark.parametrize("url", ["memory://", "sqlite:///{folder}/locks.db"])
def test_locks_of_this_machine_need_no_asyncio(url, tmp_path):
    where = url.format(folder=tmp_path)
    program = f"import lockfast\nwith lockfast.Locks({where!r}) as locks, locks.lock('door'): pass"

    done = subprocess.run(
        [sys.executable, "-c", WITHOUT + program], check=False, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
