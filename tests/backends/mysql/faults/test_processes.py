"""Clients that are killed, frozen or forked, or whose clock is wrong."""

from __future__ import annotations

from client_faults import ClientFaults

from lockfast.backends.sql.lines import SLOW


class TestClientFaults(ClientFaults):
    """What they do to every store whose server's clock ends leases."""

    slack = ClientFaults.slack + SLOW
