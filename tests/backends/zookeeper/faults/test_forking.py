"""Forking while holding and waiting on ZooKeeper."""

from __future__ import annotations

from session_forks import SessionForks


class TestForks(SessionForks):
    pass
