"""What is built is what is used: the contract, as a third party runs it, from the wheel."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def run(*command: str | Path, **options: object) -> str:
    done = subprocess.run(
        [str(one) for one in command], capture_output=True, text=True, check=False, **options
    )  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


@pytest.mark.timeout(180)  # a whole contract, in real time
def test_an_example_backend_passes_the_contract_from_the_installed_wheel(tmp_path: Path) -> None:
    """A third party has the wheel, pytest and one file of its own."""
    run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "-o", tmp_path, ROOT)
    [wheel] = tmp_path.glob("*.whl")
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    elsewhere = {**os.environ, "PYTHONPATH": str(installed)}

    where = run(
        sys.executable,
        "-c",
        "import holdfast; print(holdfast.__file__)",
        env=elsewhere,
        cwd=tmp_path,
    )
    assert where.strip() == str(installed / "holdfast" / "__init__.py")
    assert (installed / "holdfast" / "py.typed").exists()
    output = run(
        sys.executable,
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ROOT / "examples"),
        *("-c", os.devnull, ROOT / "examples"),
        env=elsewhere,
        cwd=tmp_path,
    )

    assert " passed" in output
    assert "failed" not in output
    assert "skipped" not in output
