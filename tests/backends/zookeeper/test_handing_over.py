"""A session carries the lease and cannot be handed over: the refusal harms nothing."""

from __future__ import annotations

import pytest
from both_flavours import FLAVOURS, Flavour
from servers.zookeeper import shared_server

from lockfast import ConfigurationError


@pytest.fixture(params=FLAVOURS)
def flavour(request):
    flavour = Flavour(request.param)
    yield flavour
    flavour.close()


def test_a_lease_is_not_handed_over_and_stays_ours(flavour):
    lease = flavour.locks(shared_server().url, ttl=10.0, namespace="handing").lock("door").acquire()

    with pytest.raises(ConfigurationError, match="cannot hand a lease over"):
        lease.detach()

    lease.renew()
    lease.release()
