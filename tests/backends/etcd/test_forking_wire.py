"""Forking a hundred times: no child hangs, no reply goes astray, and `fork` stays cheap."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from both_flavours import FLAVOURS
from servers.etcd import shared_server

PROGRAM = Path(__file__).with_name("forking_wire.py")


@pytest.mark.timeout(120)  # a hundred processes, on a machine that may be busy with others
@pytest.mark.parametrize("state", ["idle", "busy"])
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_hundred_children_ask_and_so_does_their_parent(flavour, state):
    command = [sys.executable, str(PROGRAM), shared_server().url, flavour, state]

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=110)

    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 0.5
