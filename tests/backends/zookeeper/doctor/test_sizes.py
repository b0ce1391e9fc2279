"""How many members an ensemble has, and how many of them may fail, decided from replies."""

from __future__ import annotations

import pytest

from lockfast.backends.zookeeper.diagnostics import EnsembleFacts, findings
from lockfast.backends.zookeeper.four_letter_words import EnsembleMember
from lockfast.model import Finding


def ensemble_of(known: int, *, named: int, serving: int) -> Finding:
    """Return the finding on `known` members, of which the URL names `named`."""
    conf = "\n".join(f"server.{number}=host:2888:3888" for number in range(known))
    members = [
        EnsembleMember(
            f"host{number}:2181",
            {"srvr": "Mode: follower" if number < serving else None, "conf": conf},
        )
        for number in range(named)
    ]
    facts = EnsembleFacts(where="here", root="/r", members=members, asked=5, granted=5, acl=())
    [found] = [one for one in findings(facts) if one.subject == "ensemble"]
    return found


@pytest.mark.parametrize(
    ("known", "level", "says"),
    [
        (2, "warning", "loss of none"),
        (3, "ok", "loss of 1"),
        (4, "note", "loss of 1, no more than 3 would"),
        (5, "ok", "loss of 2"),
    ],
)
def test_how_many_may_fail(known, level, says):
    found = ensemble_of(known, named=known, serving=known)

    assert found.level == level
    assert says in found.message


def test_members_that_the_url_does_not_name():
    found = ensemble_of(5, named=2, serving=2)

    assert found.level == "note"
    assert "2 of 5" in found.message


def test_a_member_that_does_not_serve_goes_before_all_else():
    found = ensemble_of(3, named=3, serving=2)

    assert found.level == "warning"
    assert "host2:2181" in found.message
    assert "2 are left, and 2 are needed" in found.message
