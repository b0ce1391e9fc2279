"""The reference page shows the actual help; `python tests/cli/test_reference.py` updates it."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from lockfast import errors
from lockfast.cli.app import COMMANDS, app

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
BLOCK = re.compile(r"```text\nUsage: (?P<path>lockfast(?: [a-z]+)?) .*?```", re.DOTALL)


def help_of(path: str) -> str:
    """Return the help that a terminal of 80 columns shows."""
    arguments = [*path.split()[1:], "--help"]
    # On a terminal, click leaves two columns unused; under its test runner, none.
    result = CliRunner().invoke(app, arguments, prog_name="lockfast", terminal_width=78)
    assert result.exit_code == 0
    return result.output.rstrip()


def mended(page: str) -> str:
    """Return the page with every help text updated."""
    return BLOCK.sub(lambda block: f"```text\n{help_of(block['path'])}\n```", page)


def test_the_page_shows_the_help_of_every_command_as_it_is():
    page = PAGE.read_text(encoding="utf-8")
    shown = [block["path"] for block in BLOCK.finditer(page)]

    assert shown == ["lockfast", *(f"lockfast {name}" for name in COMMANDS)]
    assert page == mended(page)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_text_has_examples(name):
    assert f"Examples:\n    lockfast {name}" in help_of(f"lockfast {name}")


@pytest.mark.parametrize("path", ["lockfast", *(f"lockfast {name}" for name in COMMANDS)])
def test_no_help_text_is_wider_than_80_columns(path):
    assert max(map(len, help_of(path).splitlines())) <= 80


def test_what_a_command_does_is_told_to_the_end():
    told = help_of("lockfast").partition("Commands:")[2].partition("Examples:")[0]

    assert "..." not in told


def test_the_page_lists_the_exit_code_of_every_error():
    rows = re.findall(r"^\| (\d+) \|.*?\|(.*)\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    listed = {name: int(code) for code, names in rows for name in re.findall(r"`(\w+)`", names)}
    ours = {
        name: one.exit_code
        for name, one in inspect.getmembers(errors, inspect.isclass)
        if issubclass(one, errors.LockError)
    }

    assert {name: ours[name] for name in listed} == listed
    assert set(ours.values()) <= set(listed.values())


if __name__ == "__main__":
    PAGE.write_text(mended(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
