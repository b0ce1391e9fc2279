"""A few facts as one short text that any channel carries, and back."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

Kinds = type | tuple[type, ...]


def packed(form: str, fields: Mapping[str, object]) -> str:
    """Return what `unpacked` reads, of letters, digits, `-`, `_` and a colon."""
    text = json.dumps(fields, separators=(",", ":")).encode()
    return form + base64.urlsafe_b64encode(text).decode().rstrip("=")


def unpacked(form: str, text: str, kinds: Mapping[str, Kinds]) -> dict[str, Any] | None:
    """Return the fields of these kinds, or None for anything but a whole text of this form."""
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
