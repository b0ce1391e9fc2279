"""Where things stand in etcd, and whose they are; pure.

    <root>s/<lease>                                        a session, under its lease
    <root>n/<name>/<capacity>/c/<claim>-<lease>-<weight>   a claim, under its session's lease
    <root>n/<name>/<capacity>/h/<claim>-<lease>-<weight>   its hold, under no lease while it holds

Numbers are hexadecimal, and a name is quoted, so that none is the beginning of another. Claims of
one capacity stand together: whether there are others is one condition of a transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote

from lockfast.backends.etcd.requests import prefix_end

if TYPE_CHECKING:
    from lockfast.model import Claim

CLAIM, HOLD = "c", "h"

KNOWN = 1000
"""Of so many names the keys are remembered."""


class Place(NamedTuple):
    """What a key of a name says."""

    capacity: int
    kind: str
    claim_id: str
    lease: int
    weight: int


class Span(NamedTuple):
    """All keys from one to before another."""

    begin: bytes
    end: bytes


class Keys:
    """The keys of one namespace."""

    def __init__(self, root: bytes) -> None:
        self._root = root
        self._names: dict[str, NameKeys] = {}

    def session(self, lease: int) -> bytes:
        """Return where a session stands."""
        return b"%bs/%016x" % (self._root, lease)

    def of(self, name: str) -> NameKeys:
        """Return the keys of a name."""
        found = self._names.get(name)
        if found is None:
            found = NameKeys(b"%bn/%b/" % (self._root, quote(name, safe="").encode()))
            if len(self._names) >= KNOWN:
                self._names.clear()
            self._names[name] = found
        return found

    @property
    def all_names(self) -> Span:
        """All keys of all names."""
        prefix = self._root + b"n/"
        return Span(prefix, prefix_end(prefix))

    def name_in(self, key: bytes) -> str | None:
        """Return the name to which a key belongs; None if it is none of ours."""
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
        self.all: Span = Span(prefix, prefix_end(prefix))

    def claim(self, claim: Claim, lease: int) -> bytes:
        """Return where a claim stands, if that session carries it."""
        return self._key(claim, CLAIM, lease)

    def hold(self, claim: Claim, lease: int) -> bytes:
        """Return where its hold does."""
        return self._key(claim, HOLD, lease)

    def _key(self, claim: Claim, kind: str, lease: int) -> bytes:
        tail = f"{claim.capacity:08x}/{kind}/{claim.id}-{lease:016x}-{claim.weight:x}"
        return self.prefix + tail.encode()

    def claims(self, capacity: int) -> Span:
        """Return all claims of a capacity."""
        return _span(b"%b%08x/c/" % (self.prefix, capacity))

    def holds(self, capacity: int) -> Span:
        """Return all holds of a capacity."""
        return _span(b"%b%08x/h/" % (self.prefix, capacity))

    def other_capacities(self, capacity: int) -> tuple[Span, Span]:
        """Return all that stands there with a smaller capacity, and with a larger one."""
        ours = _span(b"%b%08x/" % (self.prefix, capacity))
        return Span(self.all.begin, ours.begin), Span(ours.end, self.all.end)


def _span(prefix: bytes) -> Span:
    return Span(prefix, prefix_end(prefix))


def place_of(text: str) -> Place:
    """Return what the end of a key says, behind its name; ValueError if it is none of ours."""
    capacity, kind, rest = text.split("/")
    claim_id, lease, weight = rest.rsplit("-", 2)
    if kind not in (CLAIM, HOLD):
        raise ValueError(text)
    return Place(int(capacity, 16), kind, claim_id, int(lease, 16), int(weight, 16))


def twin(key: bytes) -> bytes:
    """Return where the hold of a claim stands, or the claim of a hold."""
    head, kind, tail = key.rsplit(b"/", 2)
    other = HOLD if kind == CLAIM.encode() else CLAIM
    return b"%b/%b/%b" % (head, other.encode(), tail)
