"""Runs the contract for backends against the example backend, in both flavours."""

from __future__ import annotations

import tempfile
from pathlib import Path

from directory_backend import CAPABILITIES, AsyncDirectoryBackend, Clock, DirectoryBackend

from lockfast import AsyncBackend, Backend
from lockfast.testing import AsyncBackendContract, BackendContract


class _Store:
    def set_up(self) -> None:
        self.directory = tempfile.TemporaryDirectory(prefix="lockfast-example-")

    def tear_down(self) -> None:
        self.directory.cleanup()


class TestSync(_Store, BackendContract):
    capabilities = CAPABILITIES

    def make_backend(self, clock: Clock) -> Backend:
        return DirectoryBackend(Path(self.directory.name), clock=clock)


class TestAsync(_Store, AsyncBackendContract):
    capabilities = CAPABILITIES

    def make_backend(self, clock: Clock) -> AsyncBackend:
        return AsyncDirectoryBackend(Path(self.directory.name), clock=clock)
