"""The contract as far as advisory locks declare it: a registration says by which URL alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, ClassVar

from holdfast import AsyncBackend, Backend, urls
from holdfast.backends.sql._async.advisory import AsyncAdvisoryBackend
from holdfast.backends.sql._sync.advisory import AdvisoryBackend
from holdfast.runtime.clock import Clock
from holdfast.testing import AsyncBackendContract, BackendContract


class _Namespace:
    """A namespace for each test; they share the servers, as applications may."""

    url: ClassVar[Callable[[], str]]
    ttl = 0.3
    # A session has to be opened for each client, on a machine that is busy with others.
    slack = 3.0

    def set_up(self) -> None:
        self.namespace = os.urandom(8).hex()

    def opened(self, flavour: str, clock: Clock) -> Any:
        return urls.open_backend(
            type(self).url(),
            flavour=flavour,
            namespace=self.namespace,
            clock=clock,
            options={"mode": "advisory"},
        )


class AsyncContractOfAdvisoryLocks(_Namespace, AsyncBackendContract):
    """Subclass it with `url`."""

    capabilities = AsyncAdvisoryBackend.capabilities

    def make_backend(self, clock: Clock) -> AsyncBackend:
        found: AsyncBackend = self.opened("_async", clock)
        return found


class ContractOfAdvisoryLocks(_Namespace, BackendContract):
    """Subclass it with `url`."""

    capabilities = AdvisoryBackend.capabilities

    def make_backend(self, clock: Clock) -> Backend:
        found: Backend = self.opened("_sync", clock)
        return found
