"""Provokes a refusal, and checks everything that is printed about it."""

from __future__ import annotations

import logging
import time
import traceback
from typing import Any

import pytest
from both_flavours import Flavour

from lockfast import LockError

PASSWORD = "open-sesame-4711"
"""Must not appear anywhere."""

SLACK = 8.0
"""How late a busy machine may report a refusal, in seconds."""


class Refusals:
    """Tries to acquire in several flavours at once, expects a refusal, and returns the error.

    `within` is the time for connecting and for the request; nothing may take longer. A server that
    refuses with a reply needs enough time: otherwise the error would be that it does not reply.
    """

    def __init__(
        self, flavours: list[Flavour], log: pytest.LogCaptureFixture, *, within: float
    ) -> None:
        self._flavours = flavours
        self._log = log
        self._within = within
        log.set_level(logging.DEBUG)

    def __call__(self, url: str, *, within: float | None = None, **options: Any) -> LockError:
        """Return the error, after checking everything that was printed."""
        within = self._within if within is None else within
        opened = [one.locks(url, request_timeout=within, **options) for one in self._flavours]
        asked = [
            flavour.start(_refused, locks, within)
            for flavour, locks in zip(self._flavours, opened, strict=True)
        ]
        errors = [one.result(within + 10) for one in asked]

        for error, locks in zip(errors, opened, strict=True):
            output = "".join(traceback.format_exception(error)) + repr(locks) + self._log.text
            assert PASSWORD not in output + repr(error.__dict__)
            assert "\n" not in str(error)
            assert _host_of(url) in str(error)
        assert len(set(map(type, errors))) == 1
        return errors[0]


def _refused(locks: Any, within: float) -> LockError:
    began = time.monotonic()
    with pytest.raises(LockError) as caught:
        locks.lock("door").acquire(timeout=within)
    assert time.monotonic() - began < within + SLACK
    return caught.value


def _host_of(url: str) -> str:
    return url.partition("://")[2].rpartition("@")[2].partition("?")[0].partition("/")[0]
