"""Signals that `lockfast run` receives while it waits for the lock."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import pytest

from lockfast.cli.run_supervision import Signalled, Signals


def test_a_signal_that_was_swallowed_still_ends_the_wait():
    """Python swallows an exception that a signal handler raises inside a finalizer."""
    with Signals() as signals:
        assert not signals.is_set()
        with suppress(Signalled):
            os.kill(os.getpid(), signal.SIGTERM)
            signals.wait(10)

        assert signals.is_set()
        with pytest.raises(Signalled):
            signals.raise_again()
