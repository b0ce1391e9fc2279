"""Broken: the master had not yet told its replica of the lock when the replica was promoted."""

from __future__ import annotations

from lockfast.challenge.broken.single_server import SingleServer


class TrustedFailover(SingleServer):
    """The lock that is right on one server, before a master with a replica.

    Nothing is wrong with its code. It has no token, so that nobody can tell its two holders apart.
    """
