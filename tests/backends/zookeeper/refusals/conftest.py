"""Fixtures that return the errors with which a server refuses clients of both flavours."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from both_flavours import each_flavour
from refusals import Refusals


@pytest.fixture
def refusal(caplog) -> Iterator[Refusals]:
    """Return the error of an acquire in both flavours, after checking all that was printed."""
    with each_flavour() as flavours:
        # Tests whose server takes time to reply with its refusal set a longer limit.
        yield Refusals(flavours, caplog, within=0.4)


@pytest.fixture
def scheme() -> str:
    return "zookeeper"


@pytest.fixture(scope="session")
def certificate(tmp_path_factory) -> tuple[Path, Path]:
    """A file with a key and its self-signed certificate, and a file with the certificate alone."""
    directory = tmp_path_factory.mktemp("tls")
    key, certificate = directory / "key.pem", directory / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    key.write_text(key.read_text() + certificate.read_text())
    return key, certificate
