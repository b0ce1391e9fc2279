"""The documentation's examples run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from doc_pages import PAGES, PYTHON, ROOT, SHELL, SHOWN, Block, blocks
from page_runner import DONE

RUNNER = Path(__file__).with_name("page_runner.py")
POOL = 4

EXEMPT = (
    "git clone ",
    "lockfast challenge ",
    "make ",
    "pip install ",
)
"""Commands that set up a machine, or that are tested elsewhere."""

AROUND = {name: value for name, value in os.environ.items() if not name.startswith("LOCKFAST_")}
"""Read before any thread starts, because pytest changes the environment between tests."""


def steps_of(page: Path) -> list[dict[str, object]]:
    """Return the steps of a page for the runner."""
    steps: list[dict[str, object]] = []
    for block in blocks((ROOT / page).read_text(encoding="utf-8")):
        if block.marker == "compile only":
            continue
        if block.language in PYTHON:
            steps.append({"kind": "python", "text": block.text, "line": block.line})
        elif block.language in SHELL:
            script, output = commands(block)
            if script:
                steps.append({"kind": "shell", "text": script, "line": block.line})
            if script and output:
                steps.append({"kind": "output", "text": output, "line": block.line})
        elif block.marker == "prints":
            steps.append({"kind": "output", "text": block.text, "line": block.line})
    return steps


def commands(block: Block) -> tuple[str, str]:
    """Return the script of a shell block, and the output that a console shows."""
    lines = block.text.splitlines()
    if block.language == "sh":
        typed, shown = lines, []
    else:
        typed = [line[2:] for line in lines if line.startswith(("$ ", "> "))]
        shown = [line for line in lines if not line.startswith(("$ ", "> "))]
    return "\n".join(line for line in typed if not line.startswith(EXEMPT)), "\n".join(shown)


def run(page: Path, directory: Path) -> str:
    """Run a page in an empty home and directory; return what went wrong, or ""."""
    home, here = directory / "home", directory / "here"
    home.mkdir(parents=True)
    here.mkdir()
    environment = {
        **AROUND,
        "HOME": str(home),
        "XDG_STATE_HOME": str(home / "state"),
        "PATH": f"{Path(sys.executable).parent}:{AROUND['PATH']}",
        "PYTHONPATH": "",
        "COLUMNS": "80",
    }
    done = subprocess.run(
        [sys.executable, str(RUNNER), str(page)],
        check=False,
        input=json.dumps(steps_of(page)),
        cwd=here,
        env=environment,
        capture_output=True,
        text=True,
        timeout=150,
    )
    is_fine = done.returncode == 0 and done.stdout.endswith(f"{DONE}\n")
    return "" if is_fine else done.stdout + done.stderr


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Path, Future[str]]]:
    """Run all pages, a few at a time; most pages wait more than they compute."""
    with ThreadPoolExecutor(POOL) as pool:
        yield {
            page: pool.submit(run, page, tmp_path_factory.mktemp("page"))
            for page in PAGES
            if steps_of(page)
        }


@pytest.mark.parametrize("page", [page for page in PAGES if steps_of(page)], ids=str)
def test_the_examples_on_the_page_run(page, outcomes):
    assert not (complaint := outcomes[page].result()), complaint


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_block_says_what_it_is(page):
    """A block without a known language would escape the test above."""
    for block in blocks((ROOT / page).read_text(encoding="utf-8")):
        assert block.language in PYTHON | SHELL | SHOWN, f"{page}:{block.line}: {block.language!r}"


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_what_is_not_run_compiles_and_says_why(page):
    for block in blocks((ROOT / page).read_text(encoding="utf-8")):
        if block.marker != "compile only":
            continue

        assert block.reason, f"{page}:{block.line}: write <!-- compile only: the reason -->"
        assert block.language in PYTHON, f"{page}:{block.line}: only Python can be compiled"
        compile(block.text, f"{page}:{block.line}", "exec")


# Tests of the runner itself.


@pytest.mark.parametrize(
    ("steps", "complaint"),
    [
        ([{"kind": "python", "text": "assert 1 == 2", "line": 7}], "in the block at page.md:7"),
        ([{"kind": "python", "text": "exit()", "line": 7}], "in the block at page.md:7"),
        ([{"kind": "shell", "text": "false; true", "line": 7}], "in the block at page.md:7"),
        (
            [
                {"kind": "python", "text": "print('one')", "line": 7},
                {"kind": "output", "text": "two", "line": 8},
            ],
            "in the block at page.md:8",
        ),
    ],
)
def test_the_runner_stops_at_the_first_failure(steps, complaint):
    done = subprocess.run(
        [sys.executable, str(RUNNER), "page.md"],
        check=False,
        input=json.dumps([*steps, {"kind": "python", "text": "print('went on')", "line": 9}]),
        capture_output=True,
        text=True,
    )

    assert done.returncode != 0
    assert complaint in done.stderr
    assert "went on" not in done.stdout


def test_the_runner_goes_through_blocks_in_order_with_one_namespace():
    steps = [
        {"kind": "python", "text": "name = 'door'", "line": 1},
        {"kind": "python", "text": "print(name, 1234)", "line": 2},
        {"kind": "output", "text": "door …", "line": 3},
        {"kind": "shell", "text": "echo done", "line": 4},
        {"kind": "output", "text": "done", "line": 5},
    ]

    done = subprocess.run(
        [sys.executable, str(RUNNER), "page.md"],
        check=False,
        input=json.dumps(steps),
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
