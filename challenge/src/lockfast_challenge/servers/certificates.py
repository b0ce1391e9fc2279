"""Certificates for tests: our own authority, and a certificate that this authority signed."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from lockfast_challenge.servers.run_directory import run_directory

if TYPE_CHECKING:
    from lockfast_challenge.servers.server import Server


@dataclass(frozen=True)
class Certificates:
    """Paths of the files; servers and clients on 127.0.0.1 show the same certificate."""

    authority: str
    certificate: str
    key: str

    def client_options(self) -> dict[str, str]:
        """Return the TLS options for Lockfast and redis-py."""
        return {
            "ssl_ca_certs": self.authority,
            "ssl_certfile": self.certificate,
            "ssl_keyfile": self.key,
        }


@cache
def certificates() -> Certificates:
    """Return the certificates of this run."""
    directory = run_directory("lockfast-tls-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    authority, its_key = _made(directory, "authority", "-subj", "/CN=tests")
    signed = (
        *("-CA", authority, "-CAkey", its_key, "-subj", "/CN=server"),
        *("-addext", "subjectAltName=IP:127.0.0.1"),
    )
    return Certificates(authority, *_made(directory, "server", *signed))


def _made(directory: Path, name: str, *options: str) -> tuple[str, str]:
    certificate, key = str(directory / f"{name}.pem"), str(directory / f"{name}.key")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", *options, "-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key


def copied_for(server: Server) -> Certificates:
    """Return copies in a server's directory that only its account can read."""
    found, owner = certificates(), server.directory.stat()
    copies = []
    for one in (found.authority, found.certificate, found.key):
        copy = shutil.copy(one, server.directory)
        os.chown(copy, owner.st_uid, owner.st_gid)
        Path(copy).chmod(0o600)
        copies.append(str(copy))
    return Certificates(*copies)
