"""Completion in a shell: commands, options, and the names of locks in use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import lockfast


@pytest.fixture
def offered(cli):
    """Return what a shell offers at the end of a line that begins with these words."""

    def ask(*words: str, **environment: str) -> list[str]:
        done = cli(
            env={
                "_LOCKFAST_COMPLETE": "zsh_complete",
                "COMP_WORDS": " ".join(["lockfast", *words]),
                "COMP_CWORD": str(len(words)),
                **environment,
            }
        )
        assert done.stderr == ""
        return done.stdout.splitlines()[1::3]  # three lines each: kind, value, help

    return ask


@pytest.fixture
def in_use(cli):
    with lockfast.Locks(cli.url) as locks, locks.lock("nightly-report"), locks.lock("backup"):
        yield


def test_commands_and_options_are_offered(offered):
    assert offered("d") == ["doctor", "demo"]
    assert {"--sort", "--older-than", "--watch"} <= set(offered("ls", "--"))
    assert offered("ls", "--sort", "") == ["name", "age", "waiters"]


@pytest.mark.parametrize("command", ["show", "break", "run", "ls"])
def test_names_of_locks_are_offered(offered, in_use, command):
    assert offered(command, "") == ["backup", "nightly-report"]
    assert offered(command, "nig") == ["nightly-report"]


def test_a_store_that_cannot_be_asked_offers_nothing_and_says_nothing(offered):
    """The output would appear in the middle of a line that the user is typing."""
    assert offered("show", "", LOCKFAST_URL="foo://host") == []
    assert offered("show", "", LOCKFAST_URL="sqlite:////no/such/folder/locks.db") == []


def test_a_name_that_a_terminal_would_obey_is_not_offered(offered, cli):
    with lockfast.Locks(cli.url) as locks, locks.lock("evil\x1b[31m"), locks.lock("fine"):
        assert offered("show", "") == ["fine"]


BASH = """
eval "$(_LOCKFAST_COMPLETE=bash_source lockfast)"
COMP_WORDS=(lockfast show nig) COMP_CWORD=2
_lockfast_completion lockfast nig show
printf '%s\\n' "${COMPREPLY[@]}"
"""


def test_bash_completes_as_the_page_says(cli, in_use):
    done = subprocess.run(
        ["bash", "-c", BASH],
        env={**cli.environment, "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout == "nightly-report\n", done.stderr
