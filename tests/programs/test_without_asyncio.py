"""A sync program does without asyncio, which is a part of what its start would cost."""

from __future__ import annotations

import subprocess
import sys

import pytest

# None in sys.modules is how Python is told that there is no such module.
WITHOUT = "import sys; sys.modules['asyncio'] = None\n"


@pytest.mark.parametrize("url", ["memory://", "sqlite:///{folder}/locks.db"])
def test_locks_of_this_machine_need_no_asyncio(url, tmp_path):
    where = url.format(folder=tmp_path)
    program = f"import lockfast\nwith lockfast.Locks({where!r}) as locks, locks.lock('door'): pass"

    done = subprocess.run(
        [sys.executable, "-c", WITHOUT + program], check=False, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
