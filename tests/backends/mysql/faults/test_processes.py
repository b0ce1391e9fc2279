"""Clients that are killed, frozen or forked, or whose clock is wrong."""

from __future__ import annotations

from client_faults import ClientFaults

from lockfast.backends.waiting.schedule import BEHIND_POLL_SECONDS


class TestClientFaults(ClientFaults):
    """The tests for every store whose server's clock ends leases."""

    slack = ClientFaults.slack + BEHIND_POLL_SECONDS
