"""The parts of `lockfast.testing` that do not need pytest work without it."""

from __future__ import annotations

import subprocess
import sys

import pytest

# None in sys.modules makes Python treat the module as missing.
WITHOUT = "import sys; sys.modules['pytest'] = None\n"


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + program], check=False, capture_output=True, text=True
    )


@pytest.mark.parametrize("name", ["ManualClock", "VirtualTimeLoop", "AsyncFaultyBackend"])
def test_clocks_and_faults_need_no_pytest(name):
    done = run(f"from lockfast.testing import {name}")

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["BackendContract", "AsyncBackendContract"])
def test_a_contract_says_what_it_needs(name):
    done = run(f"from lockfast.testing import {name}")

    last = done.stderr.splitlines()[-1]
    assert last == f"ImportError: lockfast.testing.{name} is run by pytest: pip install pytest"


def test_another_name_is_not_there():
    done = run("import lockfast.testing; lockfast.testing.Contract")

    assert done.stderr.splitlines()[-1] == (
        "AttributeError: module 'lockfast.testing' has no attribute 'Contract'"
    )
