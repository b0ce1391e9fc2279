"""How a column of 32 bits rounds a number that needs 64, without an error or a warning.

No statement asks for the type of a column in all databases. So what was written is read back.
"""

from __future__ import annotations

import struct


def in_32_bits(number: float) -> float:
    """Return the number as a REAL of PostgreSQL or a FLOAT of MySQL keeps it."""
    [kept] = struct.unpack("f", struct.pack("f", number))
    return float(kept)


def is_rounded(found: int, written: int) -> bool:
    """Whether what was found is what 32 bits, or fewer decimal digits, make of what was written.

    Any other number may be somebody else's. MySQL shows a FLOAT with six digits.
    """
    kept = int(in_32_bits(written))
    return found != written and any(
        found in (round(written, -digits), round(kept, -digits))
        for digits in range(len(str(written)))
    )
