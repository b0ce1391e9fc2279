"""The examples on the page about the Redlock argument have the outcomes that the page shows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from doc_pages import PYTHON, ROOT, blocks
from page_runner import DONE

PAGE = ROOT / "docs" / "concepts" / "the-redlock-argument.md"
RUNNER = Path(__file__).parents[2] / "docs" / "page_runner.py"


@pytest.mark.timeout(180)  # it waits for locks and quarantines to end, one after the other
def test_each_claim_has_the_outcome_that_the_page_shows(tmp_path):
    steps = [
        {
            "kind": "python" if one.language in PYTHON else "output",
            "text": one.text,
            "line": one.line,
        }
        for one in blocks(PAGE.read_text(encoding="utf-8"))
    ]
    assert len(steps) > 12

    reader = subprocess.Popen(
        [sys.executable, str(RUNNER), str(PAGE)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, "LOCKFAST_CLONE": str(ROOT), "TMPDIR": str(tmp_path)},
        text=True,
        start_new_session=True,
    )
    try:
        printed, complaints = reader.communicate(json.dumps(steps), timeout=170)
    finally:
        with suppress(ProcessLookupError):  # all of its processes have ended, as they should
            os.killpg(reader.pid, signal.SIGKILL)

    assert printed.endswith(f"{DONE}\n"), complaints
