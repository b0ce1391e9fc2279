"""The keys in etcd, and what each key belongs to; pure.

    <root>s/<lease>                                        a session, under its lease
    <root>n/<name>/<capacity>/c/<claim>-<lease>-<weight>   a claim, under its session's lease
    <root>n/<name>/<capacity>/h/<claim>-<lease>-<weight>   its hold, under no lease while it holds

Numbers are hexadecimal, and a name is quoted, so no name is a prefix of another. Claims of one
capacity are adjacent, so one condition of a transaction covers all of them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote

from lockfast.backends.etcd.requests import prefix_end
from lockfast.backends.sessions import records
from lockfast.core.renewal import CLOCK_DRIFT_FRACTION

if TYPE_CHECKING:
    from lockfast.model import Claim

CLAIM, HOLD = "c", "h"

NAMES_REMEMBERED = 1000
"""Maximum number of names whose keys are remembered."""


class KeyParts(NamedTuple):
    """The parts of a key, after its name."""

    capacity: int
    kind: str
    claim_id: str
    lease: int
    weight: int


class KeyRange(NamedTuple):
    """All keys from `begin` up to, but not including, `end`."""

    begin: bytes
    end: bytes


class EtcdKeys:
    """The keys of one namespace."""

    def __init__(self, root: bytes) -> None:
        self._root = root
        self._names: dict[str, NameKeys] = {}

    def session(self, lease: int) -> bytes:
        """Return the key of a session."""
        return b"%bs/%016x" % (self._root, lease)

    def of(self, name: str) -> NameKeys:
        """Return the keys of a name."""
        found = self._names.get(name)
        if found is None:
            found = NameKeys(b"%bn/%b/" % (self._root, quote(name, safe="").encode()))
            if len(self._names) >= NAMES_REMEMBERED:
                self._names.clear()
            self._names[name] = found
        return found

    @property
    def all_names(self) -> KeyRange:
        """All keys of all names."""
        prefix = self._root + b"n/"
        return KeyRange(prefix, prefix_end(prefix))

    def name_in(self, key: bytes) -> str | None:
        """Return the name to which a key belongs; None if the key is not one of ours."""
        try:
            quoted, *rest = key[len(self._root) + 2 :].decode().split("/")
            name = unquote(quoted, errors="strict")
        except UnicodeDecodeError:
            return None
        is_ours = len(rest) == 3 and quote(name, safe="") == quoted  # noqa: PLR2004 - see above
        return name if is_ours else None


class NameKeys:
    """The keys of one name."""

    def __init__(self, prefix: bytes) -> None:
        self.prefix = prefix
        self.all: KeyRange = KeyRange(prefix, prefix_end(prefix))

    def claim(self, claim: Claim, lease: int) -> bytes:
        """Return the key of a claim that belongs to the session with this lease."""
        return self._key(claim, CLAIM, lease)

    def hold(self, claim: Claim, lease: int) -> bytes:
        """Return the key of the claim's hold."""
        return self._key(claim, HOLD, lease)

    def _key(self, claim: Claim, kind: str, lease: int) -> bytes:
        tail = f"{claim.capacity:08x}/{kind}/{claim.id}-{lease:016x}-{claim.weight:x}"
        return self.prefix + tail.encode()

    def claims(self, capacity: int) -> KeyRange:
        """Return the range of all claims of a capacity."""
        return _span(b"%b%08x/c/" % (self.prefix, capacity))

    def holds(self, capacity: int) -> KeyRange:
        """Return the range of all holds of a capacity."""
        return _span(b"%b%08x/h/" % (self.prefix, capacity))

    def other_capacities(self, capacity: int) -> tuple[KeyRange, KeyRange]:
        """Return the ranges of all keys with a smaller capacity, and with a larger one."""
        ours = _span(b"%b%08x/" % (self.prefix, capacity))
        return KeyRange(self.all.begin, ours.begin), KeyRange(ours.end, self.all.end)


def _span(prefix: bytes) -> KeyRange:
    return KeyRange(prefix, prefix_end(prefix))


def key_parts_of(text: str) -> KeyParts:
    """Return the parts of a key from the text after its name; ValueError if the key is not ours."""
    capacity, kind, rest = text.split("/")
    claim_id, lease, weight = rest.rsplit("-", 2)
    if kind not in (CLAIM, HOLD):
        raise ValueError(text)
    return KeyParts(int(capacity, 16), kind, claim_id, int(lease, 16), int(weight, 16))


def twin(key: bytes) -> bytes:
    """Return the key of the hold for a claim's key, and the key of the claim for a hold's key."""
    head, kind, tail = key.rsplit(b"/", 2)
    other = HOLD if kind == CLAIM.encode() else CLAIM
    return b"%b/%b/%b" % (head, other.encode(), tail)


# The records of a claim and of its hold; pure.
#
# The records are the same as in the other stores with sessions, plus the time of arrival, for
# display. A hold also records how long it keeps its name closed if its claim is gone.


def of_claim(claim: Claim, *, at: float) -> bytes:
    """Return the record of a claim that arrived at `at`."""
    return b'%b, "at": %.3f}' % (records.of_claim(claim)[:-1], at)


def of_hold(claim_record: bytes, *, ttl: float, lock_delay: float) -> bytes:
    """Return the record of a hold, which its owner may trust for `ttl` after the last renewal."""
    return b'%b, "ttl": %.3f, "lock_delay": %.6f}' % (claim_record[:-1], ttl, lock_delay)


def of_closing(claim: Claim, *, seconds: float, at: float) -> bytes:
    """Return the record of a hold that has ended but keeps its name closed."""
    return b'%b, "at": %.3f}' % (records.of_closing(claim, seconds=seconds)[:-1], at)


def closed(data: bytes, *, seconds: float) -> bytes:
    """Return a hold's record, changed so that the hold keeps its name closed for `seconds`."""
    return json.dumps({**_fields(data), "closed_for": seconds}).encode()


def lock_delay_in(data: bytes) -> float:
    """Return how long a broken hold keeps its name closed."""
    return _number(_fields(data), "lock_delay")


def grace_in(data: bytes) -> float:
    """Return how long to wait from the first sight of a hold whose claim is gone.

    The holder may have renewed just before, without knowing that its session had ended. It trusts
    its lease for at most one ttl after that renewal. The factor allows for clocks that drift apart.
    """
    fields = _fields(data)
    if "closed_for" in fields:
        return _number(fields, "closed_for")
    return _number(fields, "ttl") * (1 + CLOCK_DRIFT_FRACTION) + _number(fields, "lock_delay")


def at_in(data: bytes) -> float | None:
    """Return when the claim arrived, on the writer's clock; None if the record does not say."""
    return _number(_fields(data), "at") or None


def _fields(data: bytes) -> dict[str, object]:
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _number(fields: dict[str, object], name: str) -> float:
    value = fields.get(name)
    return float(value) if isinstance(value, int | float) else 0.0
