"""Texts that represent a lease outside of its process: detached leases and sequencers."""

from __future__ import annotations

import base64
import hashlib
import inspect
import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from lockfast.core.naming import checked_name
from lockfast.errors import ConfigurationError
from lockfast.model import Claim, Grant
from lockfast.options import checked_permits, checked_ttl

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockfast.model import Inspection

# Pack a few fields into one short text that can be sent over any medium, and unpack them.

FieldTypes = type | tuple[type, ...]


def packed_fields(form: str, fields: Mapping[str, object]) -> str:
    """Return the text for `unpacked_fields`, made of letters, digits, `-`, `_` and a colon."""
    text = json.dumps(fields, separators=(",", ":")).encode()
    return form + base64.urlsafe_b64encode(text).decode().rstrip("=")


def unpacked_fields(form: str, text: str, kinds: Mapping[str, FieldTypes]) -> dict[str, Any] | None:
    """Return the fields; None unless the text is complete and of this form and these types."""
    text = text.strip()  # a file or a pipe adds a line break
    body = text.removeprefix(form)
    try:
        fields = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (ValueError, TypeError):
        return None
    if body == text or not isinstance(fields, dict) or set(fields) != set(kinds):
        return None
    for field, kind in kinds.items():
        if not isinstance(fields[field], kind) or isinstance(fields[field], bool):
            return None
    return fields


# The text that moves a lease from one process to another.
#
# The text contains the claim id, and a store requires nothing else. So any process that has the
# text can renew and release the lease. The text is therefore a secret while the lease lasts, like
# the lease itself.

DETACHED_FORMAT = "lockfast-lease-1:"
_DETACHED_TYPES: dict[str, FieldTypes] = {
    "id": str,
    "name": str,
    "weight": int,
    "capacity": int,
    "ttl": (int, float),
    "party": (str, type(None)),
    "lock_delay": (int, float),
    "min_hold": (int, float),
    "token": (int, type(None)),
}


def detached_text(grant: Grant) -> str:
    """Return the text for `detached_from_text`."""
    fields = {
        field: grant.token if field == "token" else getattr(grant.claim, field)
        for field in _DETACHED_TYPES
    }
    return packed_fields(DETACHED_FORMAT, fields)


def detached_from_text(text: str, *, client: str, owner: str) -> Grant:
    """Return the grant, now assigned to this client; any other text is refused."""
    if not isinstance(text, str):
        awaited = "; await it" if inspect.isawaitable(text) else ""
        raise TypeError(f"what `detach` returned is a str, not {type(text).__name__}{awaited}")
    fields = unpacked_fields(DETACHED_FORMAT, text, _DETACHED_TYPES)
    if fields is None:
        # Do not show the input, because it may be the truncated text of a real lease.
        raise ConfigurationError(
            "this is not the text of a lease: give it as `lease.detach()` returned it"
        )
    token = fields.pop("token")
    claim = Claim(**fields, client=client, owner=owner)
    # Others have handled the text, so check the fields.
    checked_name(claim.name)
    checked_ttl(claim.ttl)
    checked_permits(claim.weight, capacity=claim.capacity)
    return Grant(claim, token, claim.ttl)


def without_client(grant: Grant) -> Grant:
    """Return the grant without a client, as it is while the lease is detached."""
    return replace(grant, claim=replace(grant.claim, client=""))


# A text with which other programs can ask whether a lease still holds.
#
# Chubby calls such a text a sequencer. It contains the name, mode and token of a lock. Unlike the
# text of a detached lease, it contains no claim id. So it is not a secret, and grants no rights.
#
# Tokens are comparable only within one name of one store, because another namespace, table or
# server may grant the same token for the same name. An address cannot tell stores apart, because
# one store has several addresses and may contain several namespaces or tables. So a sequencer also
# identifies its hold, by an id that no other hold anywhere has.

SEQUENCER_FORMAT = "lockfast-sequencer-1:"
EXCLUSIVE, SHARED = "exclusive", "shared"
_SEQUENCER_TYPES = {"name": str, "mode": str, "token": int, "hold": str}


@dataclass(frozen=True, slots=True)
class Sequencer:
    """One hold, as the store identifies it; no two holds of a name have the same token."""

    name: str
    mode: str
    token: int
    hold: str

    def is_current_in(self, seen: Inspection) -> bool:
        """Return whether the store lists this very hold among the holders."""
        return any(
            one.token == self.token
            and one.hold == self.hold
            and mode_of(one.weight, seen.capacity) == self.mode
            for one in seen.holders
        )

    def to_text(self) -> str:
        """Return the text for `sequencer_from_text`."""
        return packed_fields(SEQUENCER_FORMAT, asdict(self))


def no_sequencers(name: str) -> ConfigurationError:
    """Return the error for a backend that cannot say for certain who holds a lock."""
    return ConfigurationError(
        "this backend has no sequencers; fence by the token, if it has one", name=name
    )


def mode_of(weight: int, capacity: int) -> str:
    """Return the mode of a lease: exclusive, or shared if others may hold the name too."""
    return EXCLUSIVE if weight >= capacity else SHARED


def hold_of(claim_id: str, *, party: str | None) -> str:
    """Return the public id of a hold, which does not reveal its claim.

    If the claims of an explicit owner share a hold, the hold outlasts each of the claims, so no
    claim can provide its id. Its name and token identify such a hold.
    """
    if party is not None:
        return ""
    return hashlib.blake2b(claim_id.encode(), digest_size=16).hexdigest()


def sequencer_of(grant: Grant, token: int) -> Sequencer:
    """Return the sequencer of a granted hold."""
    claim = grant.claim
    mode = mode_of(claim.weight, claim.capacity)
    return Sequencer(claim.name, mode, token, hold_of(claim.id, party=claim.party))


def sequencer_from_text(text: str) -> Sequencer:
    """Return the sequencer in the text; any other text is refused."""
    if not isinstance(text, str):
        awaited = "; await it" if inspect.isawaitable(text) else ""
        raise TypeError(f"a sequencer is a str, not {type(text).__name__}{awaited}")
    fields = unpacked_fields(SEQUENCER_FORMAT, text, _SEQUENCER_TYPES)
    if fields is None or fields["mode"] not in (EXCLUSIVE, SHARED):
        raise ConfigurationError(
            "this is not the text of a sequencer: give it as `lease.sequencer` says it"
        )
    found = Sequencer(**fields)
    checked_name(found.name)  # others have handled the text
    return found
