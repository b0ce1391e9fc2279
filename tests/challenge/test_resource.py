"""The resource behind the lock notices overwrites, and rejects late writers."""

from __future__ import annotations

import pytest

from lockfast_challenge.outcome import WORKLOADS
from lockfast_challenge.resource import Resource, ResourceClient, TooLate


@pytest.fixture(name="behind")
def _behind(request):
    with Resource(WORKLOADS[request.param]) as resource:
        client = ResourceClient(resource.address)
        yield resource, client
        client.close()


def write(client: ResourceClient, value, token: int) -> None:
    client.write(value, client="0", hold=token, token=token)


@pytest.mark.parametrize(
    ("behind", "values"),
    [("counter", (1, 2, 2)), ("set", (["a"], ["a", "b"], ["a", "c"]))],
    indirect=["behind"],
)
def test_a_write_that_had_not_read_the_last_one_is_lost(behind, values):
    resource, client = behind

    for token, value in enumerate(values):
        write(client, value, token)

    assert [one.is_lost for one in resource.writes] == [False, False, True]
    assert client.read(token=None) == values[-1]


@pytest.mark.parametrize("behind", ["guarded-counter", "guarded-set"], indirect=True)
def test_behind_the_check_nobody_comes_after_a_larger_token_has_read(behind):
    resource, client = behind
    before = client.read(token=1)
    client.read(token=2)

    with pytest.raises(TooLate):
        write(client, before, 1)
    with pytest.raises(TooLate):
        client.read(token=1)

    assert [(one.is_accepted, one.is_lost) for one in resource.writes] == [(False, False)]
    assert client.read(token=2) == before
