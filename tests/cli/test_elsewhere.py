"""On platforms other than Linux, a command that cannot work explains so in one sentence."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

import lockfast
from lockfast.cli.app import COMMANDS, app
from lockfast.platforms import here


@pytest.mark.parametrize(
    ("platform", "command", "reason"),
    [
        ("Windows", "run", "take the lock in a Python program instead"),
        ("Windows", "demo", "play it on Linux or macOS"),
        ("Windows", "challenge", "needs Linux"),
        ("macOS", "challenge", "needs Linux"),
    ],
)
def test_a_command_that_cannot_be_there_says_so(monkeypatch, platform, command, reason):
    monkeypatch.setattr(here, "NAME", platform)

    done = CliRunner().invoke(app, [command, "nightly", "--json", "--", "true"])

    assert done.exit_code == 78
    assert done.stderr.startswith(f"lockfast: lockfast {command} ")
    assert reason in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_help_lists_every_command_on_windows_too(monkeypatch):
    monkeypatch.setattr(here, "NAME", "Windows")

    done = CliRunner().invoke(app, ["--help"])

    assert done.exit_code == 0
    assert all(f"  {command} " in done.stdout for command in COMMANDS)
    assert done.stdout.count("Not on Windows.") == 3


def test_a_command_of_another_package_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: ())

    done = CliRunner().invoke(app, ["challenge", "--start", "redis"])
    listed = CliRunner().invoke(app, ["--help"])

    assert done.exit_code == 78
    assert done.stderr == (
        'lockfast: lockfast challenge is a package of its own: pip install "lockfast[challenge]"\n'
    )
    assert "  challenge  Not installed." in listed.stdout


@dataclass
class PlugIn:
    """An entry point of an installed distribution."""

    dist: Any
    name: str = "challenge"

    def load(self) -> None:
        raise ImportError("No module named 'lockfast_challenge.checker'")


@pytest.mark.parametrize(
    ("version", "sentence"),
    [
        (
            "0.0.1",
            (
                "lockfast-challenge 0.0.1 does not fit lockfast "
                f'{lockfast.__version__}: pip install "lockfast[challenge]"'
            ),
        ),
        (
            lockfast.__version__,
            (
                "lockfast challenge is incomplete (No module named 'lockfast_challenge.checker'): "
                "install it again"
            ),
        ),
    ],
)
def test_a_command_of_another_package_that_does_not_fit_is_refused_alone(
    version, sentence, monkeypatch
):
    """Its package uses our internals. The help and every other command still work."""
    plug_in = PlugIn(SimpleNamespace(name="lockfast-challenge", version=version))
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: (plug_in,))

    done = CliRunner().invoke(app, ["challenge", "--start", "redis"])
    listed = CliRunner().invoke(app, ["--help"])

    assert (done.exit_code, done.stderr) == (78, f"lockfast: {sentence}\n")
    assert listed.exit_code == 0


PROGRAM = """
import sys
# What others stand on here: ours is what is on trial.
import asyncio, subprocess, click, rich.console, rich.live, pytest
from lockfast.platforms import here

here.NAME = "Windows"
for missing in ("grp", "pty", "pwd", "resource", "termios", "tty"):
    sys.modules[missing] = None
for imported in [one for one in sys.modules if one.startswith("lockfast.cli")]:
    del sys.modules[imported]
from lockfast.cli.app import COMMANDS, app

for name in COMMANDS:
    assert app.get_command(None, name) is not None, name
import lockfast.fencing.file, lockfast.sql_rows, lockfast.testing
"""


def test_the_commands_of_windows_import_nothing_that_is_missing_there():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )

    assert done.stderr == ""
    assert done.returncode == 0
