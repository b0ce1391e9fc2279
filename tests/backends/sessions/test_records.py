"""Records of names and claims in the store, and records that another program wrote."""

from __future__ import annotations

import pytest

from lockfast.backends.sessions import records
from lockfast.errors import ConfigurationError
from lockfast.model import Claim, Owner

CLAIM = Claim("ab", "door", "client", Owner("host", 7).to_text(), 1, 1, 30.0)


def test_what_is_kept_is_read_back() -> None:
    assert records.capacity_in(records.of_door(3), key="/lockfast/door") == 3
    assert records.owner_in(records.of_claim(CLAIM)) == Owner("host", 7)
    assert records.closed_for_in(records.of_claim(CLAIM)) is None


def test_what_closes_a_name_says_for_how_long_and_after_whom() -> None:
    closing = records.of_closing(CLAIM, seconds=1.5)

    assert records.closed_for_in(closing) == 1.5
    assert records.owner_in(closing) == Owner("host", 7)


def test_a_newer_format_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="newer Lockfast"):
        records.capacity_in(b'{"format": 2}', key="/lockfast/door")


@pytest.mark.parametrize("data", [b"", b"[]", b"hello", b'{"format": 1}', b"\xff"])
def test_what_another_program_wrote_is_refused(data: bytes) -> None:
    with pytest.raises(ConfigurationError, match="another program"):
        records.capacity_in(data, key="/lockfast/door")
