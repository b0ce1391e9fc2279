"""Runs the blocks of one page, in order: `python page_runner.py PAGE < steps.json`.

The Python blocks share one namespace, as a reader would type them into one session. Shell
blocks run by `bash -e` in the same directory. The first failure ends the run.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import subprocess
import sys
import types

DONE = "every step was done"


class WrongError(Exception):
    """The page shows something that does not happen."""


def main() -> None:
    page, steps = sys.argv[1], json.load(sys.stdin)
    # A real module, so that definitions on the page can be found by name.
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    printed = ""
    for step in steps:
        try:
            if step["kind"] == "python":
                printed = run_python(page, step, module.__dict__)
            elif step["kind"] == "shell":
                printed = run_shell(step["text"])
            else:
                compare(expected=step["text"], printed=printed)
        except BaseException as error:
            wrong = WrongError(f"in the block at {page}:{step['line']}")
            raise wrong from error
    # Printed last, so that an example that ends the process early does not count as a success.
    sys.stdout.write(f"{DONE}\n")


def run_python(page: str, step: dict[str, str], namespace: dict[str, object]) -> str:
    # The blank lines make tracebacks show line numbers of the page.
    source = "\n" * (int(step["line"]) - 1) + step["text"]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(source, page, "exec"), namespace)  # noqa: S102 - that is the test
    return out.getvalue()


def run_shell(script: str) -> str:
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    if done.returncode:
        raise WrongError(f"exit code {done.returncode} of:\n{script}\n{done.stdout}")
    return done.stdout


def compare(*, expected: str, printed: str) -> None:
    """`…` matches anything; all other output must be as on the page."""
    pattern = re.escape(expected.strip()).replace("…", ".*?")
    lines = "\n".join(line.rstrip() for line in printed.strip().splitlines())
    if not re.fullmatch(pattern, lines, re.DOTALL):
        raise WrongError(f"the page says:\n{expected}\nand it printed:\n{printed}")


if __name__ == "__main__":
    main()
