"""The built wheel and sdist work: the wheel for third parties, the sdist for running the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from email.message import Message
from email.parser import BytesParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def run(*command: str | Path, **options: object) -> str:
    done = subprocess.run(
        [str(one) for one in command], capture_output=True, text=True, check=False, **options
    )  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the unpacked sdist, and the unpacked wheel that was built from it."""
    folder = tmp_path_factory.mktemp("built")
    run(sys.executable, "-m", "build", "--no-isolation", "-o", folder, ROOT)
    [sdist], [wheel] = folder.glob("*.tar.gz"), folder.glob("*.whl")
    shutil.unpack_archive(sdist, folder, filter="data")
    [unpacked] = [one for one in folder.iterdir() if one.is_dir()]
    unpacked.rename(folder / "sdist")
    shutil.unpack_archive(wheel, folder / "installed", "zip")
    return folder


def metadata(built: Path) -> Message:
    [path] = (built / "installed").glob("*.dist-info/METADATA")
    return BytesParser().parsebytes(path.read_bytes())


@pytest.mark.soak
@pytest.mark.timeout(300)  # two builds, and a whole contract in real time
def test_an_example_backend_passes_the_contract_from_the_installed_wheel(built: Path) -> None:
    """A third party has the wheel, pytest and one file of its own."""
    installed = built / "installed"
    elsewhere = {**os.environ, "PYTHONPATH": str(installed)}

    where = run(
        sys.executable, "-c", "import lockfast; print(lockfast.__file__)", env=elsewhere, cwd=built
    )
    assert where.strip() == str(installed / "lockfast" / "__init__.py")
    assert (installed / "lockfast" / "py.typed").exists()
    output = run(
        sys.executable,
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ROOT / "examples"),
        *("-c", os.devnull, ROOT / "examples"),
        env=elsewhere,
        cwd=built,
    )

    assert " passed" in output
    assert "failed" not in output
    assert "skipped" not in output


def test_tests_run_from_the_sdist(built: Path) -> None:
    """The sample has a test of each kind: of the code, of the pages and of the tools."""
    unpacked = built / "sdist"
    alone = {**os.environ, "PYTHONPATH": str(unpacked / "src")}

    some = "tests/core/test_errors.py", "tests/docs/test_links.py", "tests/tools/test_sync_form.py"
    output = run(
        sys.executable,
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", *some),
        env=alone,
        cwd=unpacked,
    )

    assert " passed" in output


def test_the_sdist_leaves_out_no_file_that_the_tests_may_need(built: Path) -> None:
    rooms = ("bench", "docs", "examples", "src", "tests", "tools", ".ci", ".github")
    here = {
        path.relative_to(ROOT)
        for room in rooms
        for path in (ROOT / room).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    here |= {path.relative_to(ROOT) for path in ROOT.glob("*.md")}
    here |= {Path("LICENSE"), Path("Makefile"), Path("pyproject.toml")}

    assert {one.as_posix() for one in here if not (built / "sdist" / one).is_file()} == set()


def test_the_description_of_the_package_leads_nowhere_but_out(built: Path) -> None:
    """An index shows the README outside the repository, where relative links do not work."""
    text = metadata(built).get_payload()

    assert "](http" in text
    assert "](docs/" not in text
    assert "/raw/main/docs/images/demo.svg)" in text


def test_the_tools_of_the_developers_are_no_extras(built: Path) -> None:
    extras = set(metadata(built).get_all("Provides-Extra"))

    assert extras.isdisjoint({"bench", "dev", "docs", "test-core"})
