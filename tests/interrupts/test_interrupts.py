"""Whatever ends an acquire, a release, a block or a close leaves nothing behind.

Also a signal's exception, which arrives wherever CPython looks for one. This is the short form;
the long one takes every place (see `hammer.py`).
"""

from __future__ import annotations

import pytest
from hammer import hammer, hammer_close
from scenes import SCENES

PLACES = 60
"""So many of each scene, spread evenly."""


@pytest.fixture(params=["memory"])
def url(request, tmp_path) -> str:
    return f"memory://{tmp_path.name}"


@pytest.mark.parametrize("scene", SCENES)
def test_an_interrupt_leaves_nothing_held_nothing_waiting_and_a_client_that_works(url, scene):
    hammer(url, SCENES[scene], at_most=PLACES)


def test_a_close_that_was_interrupted_can_be_repeated(url):
    hammer_close(url, at_most=PLACES)
