"""What the embedded default finds around it: this Python, this user."""

from __future__ import annotations

import os
import pwd
import re
from pathlib import Path

import pytest

import holdfast

PACKAGE = Path(holdfast.__file__).parent
NUMBERED = re.compile(r"\?\d")


def test_no_statement_numbers_its_placeholders():
    """Pythons 3.12.0 to 3.12.3 warn of `?1`, which is an error under `-W error`."""
    numbered = [
        f"{path.relative_to(PACKAGE)}: {line.strip()}"
        for path in PACKAGE.rglob("*.py")
        for line in path.read_text().splitlines()
        if NUMBERED.search(line)
    ]

    assert numbered == []


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch):
    """Containers run under numbers that no passwd knows; a sentence, not a bare RuntimeError."""

    def unknown(uid: int) -> pwd.struct_passwd:
        raise KeyError(uid)

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setattr(os, "getuid", lambda: 54321)

    with pytest.raises(holdfast.ConfigurationError, match="XDG_STATE_HOME"):
        holdfast.Locks()
