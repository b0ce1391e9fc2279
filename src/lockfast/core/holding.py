"""What becomes of a hold: the states of its life, and which of them follow each other.

Whoever holds may act in the first one alone. The store's answer to a release decides what the
release was; nothing else ends a hold while it is under way.
"""

from __future__ import annotations

import enum


class Holding(enum.IntEnum):
    """Where a hold is in its life."""

    HELD = 0
    RELEASING = 1  # sent while it was trusted: clean, whatever a repeat is answered
    ENTRUSTED = 2  # the same, but not answered: the background goes on with it
    LOST = 3  # and everybody is told; it may still be released, which says so once more
    OVER = 4  # released, handed over or withdrawn


# By themselves, for whoever asks at every acquire: to look a member up in its class takes Python
# 3.11 longer than all that is then done with it.
HELD, RELEASING, ENTRUSTED, LOST, OVER = Holding

LEADS_TO: dict[Holding, tuple[Holding, ...]] = {
    HELD: (RELEASING, LOST, OVER),
    # Itself too: interrupted before it was answered or entrusted, it is begun again.
    RELEASING: (OVER, ENTRUSTED, LOST, RELEASING),
    ENTRUSTED: (OVER,),
    # Itself too: interrupted before everybody was told, it is told again.
    LOST: (OVER, LOST),
    OVER: (),
}
"""Which state may follow."""

SENT = (RELEASING, ENTRUSTED)
"""A release was sent that counts as clean."""

GIVEN_UP = (*SENT, OVER)
"""The holder has ended it itself, or is about to: nothing of it can be lost."""
