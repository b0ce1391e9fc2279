"""A lease on its way from one process to another is adopted once, whoever hurries."""

from __future__ import annotations

import pytest
from both_flavours import FLAVOURS, Flavour

from holdfast import LeaseLost


@pytest.fixture(params=FLAVOURS)
def flavour(request):
    flavour = Flavour(request.param)
    yield flavour
    flavour.close()


def test_of_many_who_adopt_through_one_client_at_once_one_has_it(flavour, tmp_path):
    url = f"sqlite://{tmp_path}/locks.db"
    text = flavour.locks(url).lock("door").acquire().detach()
    locks = flavour.locks(url)

    under_way = [flavour.start(locks.adopt, text) for _ in range(8)]

    errors = [one.exception(20) for one in under_way]
    assert [type(one) for one in errors if one is not None] == [LeaseLost] * 7
    [lease] = [one.result() for one in under_way if one.exception() is None]
    assert lease.is_trusted
