"""A program that is a single file: the package and its scripts are in a zip."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from servers.redis import shared_server

import lockfast

PROGRAM = """
import sys
import lockfast

assert ".zip" in lockfast.__file__, lockfast.__file__
with lockfast.Locks(sys.argv[1]) as locks, locks.lock("zipped") as lease:
    print(lease.token > 0)
"""


def test_the_scripts_are_found_in_a_zip_file(tmp_path):
    package = Path(lockfast.__file__).parent
    archive = tmp_path / "program.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        for path in package.rglob("*"):
            if path.suffix in (".py", ".lua"):
                zipped.write(path, path.relative_to(package.parent))

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, shared_server().url],
        env={**os.environ, "PYTHONPATH": str(archive)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )

    assert (done.stdout, done.stderr) == ("True\n", "")
