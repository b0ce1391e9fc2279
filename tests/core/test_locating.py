"""A URL that names several hosts."""

from __future__ import annotations

import pytest

from lockfast.core.descriptor import split


@pytest.mark.parametrize("hosts", ["h1,[::1]:5", "[::1],[::2]", "me:s%2Fe@h1,h2:1234,[::1]:5"])
@pytest.mark.parametrize("rest", ["", "/my%20master", "?db=3", "/a/b?x=1,2"])
def test_an_address_of_version_6_may_stand_anywhere_among_the_hosts(hosts, rest):
    parts = split(f"redis+sentinel://{hosts}{rest}")

    assert (parts.scheme, parts.netloc) == ("redis+sentinel", hosts)
    assert parts.geturl() == f"redis+sentinel://{hosts}{rest}"


@pytest.mark.parametrize("hosts", ["h1,[::1", "[::1],::2]", "h1,[::1]:5,[::2"])
def test_half_a_pair_of_brackets_is_refused(hosts):
    with pytest.raises(ValueError, match="IPv6"):
        split(f"zookeeper://{hosts}/path")
