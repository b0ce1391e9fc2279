"""The suite passes however it was started."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from started_anywhere import INHERITED, as_from_a_terminal

SHOW = "import signal; print(signal.getsignal({}) is signal.SIG_IGN)"


@pytest.fixture
def ignoring():
    """A process that was started by nohup, or in a script with `&`."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in INHERITED}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("ignoring")
@pytest.mark.parametrize("number", INHERITED)
def test_what_the_suite_was_started_to_ignore_is_not_inherited_by_what_it_starts(number):
    as_from_a_terminal()

    shown = subprocess.check_output([sys.executable, "-c", SHOW.format(number.value)], text=True)

    assert shown == "False\n"


@pytest.mark.usefixtures("ignoring")
@pytest.mark.parametrize("number", INHERITED)
def test_what_the_suite_was_started_to_ignore_does_not_end_it(number):
    as_from_a_terminal()

    signal.raise_signal(number)
