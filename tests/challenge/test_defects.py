"""A fixed defect that came back would be found: each one is put back, and a run must report it.

`count_defects.py` counts how often each defect is found, and checks that no run accuses the fix.
"""

from __future__ import annotations

import types

import pytest
from challenge.defects.putting_back import Defective, MendHasMoved, instead
from challenge.defects.trials import TRIALS, play

from lockfast_challenge.clients.lockfast_locks import SyncContender
from lockfast_challenge.clients.process import ClientFailed
from lockfast_challenge.deployments.catalog import own_servers
from lockfast_challenge.outcome import Setting
from lockfast_challenge.runs.run import run

PATIENCE = 300.0
"""Maximum seconds for a defect whose first finding ends the run; generous, for busy machines."""
AT_THE_END = ("crash", "left behind")
"""Kinds of findings that appear only at the end of a run.

Such a run has a fixed length, and on a busy machine little happens in it.
"""
RUNS = 8
"""Maximum runs for these kinds: on a busy machine, every second run finds a leftover."""


@pytest.mark.timeout(900)  # enough for PATIENCE or for RUNS on a busy machine
@pytest.mark.parametrize("name", TRIALS)
def test_a_defect_that_is_put_back_is_found(name, tmp_path):
    trial = TRIALS[name]
    seconds, seeds = (None, RUNS) if trial.tells in AT_THE_END else (PATIENCE, 1)
    found = set()

    with own_servers(trial.store, ttl=trial.ttl) as deployment:
        for seed in range(1, seeds + 1):
            folder = tmp_path / str(seed)
            outcome = play(name, deployment, folder, seed=seed, seconds=seconds)
            found |= {one.kind for one in outcome.findings}
            if trial.tells in found:
                break

    assert outcome.grants, "nothing was shown, as nobody came in"
    assert trial.tells in found


# -- the putting back itself ---------------------------------------------------------------------


def test_a_mend_is_back_when_the_block_is_over():
    module = types.SimpleNamespace(__name__="module", mend="mended")

    with instead(module, "mend", "broken"):
        assert module.mend == "broken"

    assert module.mend == "mended"


class NothingToMend(Defective, SyncContender):
    defect = staticmethod(lambda: instead(SyncContender, "no_such_mend", None))


def test_a_mend_that_has_moved_is_told_in_a_sentence():
    with (
        pytest.raises(MendHasMoved, match=r"SyncContender.no_such_mend is no longer there"),
        instead(SyncContender, "no_such_mend", None),
    ):
        pass


def test_a_run_whose_defect_cannot_be_put_back_fails(tmp_path):
    setting = Setting("sqlite", "none", "lock", 1, 1, 1.0, 1.0, ())

    with (
        own_servers("sqlite", ttl=1.0) as deployment,
        pytest.raises(ClientFailed, match="so the defect that it mends cannot be put back"),
    ):
        run(setting, deployment, make="challenge.test_defects:NothingToMend", folder=tmp_path)
