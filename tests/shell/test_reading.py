"""What one thread at a time reads for all: what is left when nobody closes it."""

from __future__ import annotations

import gc
import warnings

from holdfast.runtime.reading import Kicks


def test_a_pair_that_nobody_closed_is_closed_without_a_warning_when_it_is_collected():
    kicks = Kicks()
    awake = kicks._awake
    ring = [kicks]
    ring.append(ring)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del kicks, ring
        gc.collect()
    assert awake.fileno() == -1
