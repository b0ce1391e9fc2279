"""No two clients hold a name at once, and tokens grow, whatever happens to nodes and clients."""

from __future__ import annotations

from backends.redlock.faults.hostile import tried


def test_nobody_is_let_in_beside_a_holder_while_a_minority_of_the_nodes_misbehaves(fleet, tmp_path):
    holds, wrong, done = tried(fleet, tmp_path, seconds=8.0, seed=5, enough=40)

    assert not wrong, "\n".join(map(str, wrong))
    assert len(holds) >= 40
    assert sum(done.values()) >= 10
