"""TLS on both sides, on one side only, and a certificate that nobody trusts."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from servers.zookeeper import shared_server

from lockfast import BackendUnavailable, ConfigurationError
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.server import free_ports
from lockfast_challenge.servers.zookeeper import ZooKeeperServer


@pytest.fixture(scope="module")
def secure(certificate):
    """The address at which a server speaks TLS."""
    with _server(certificate, clients="none") as address:
        yield address


@contextmanager
def _server(certificate, *, clients: str) -> Iterator[str]:
    key, trusted = map(str, certificate)
    [port] = free_ports(1)
    settings = {
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "secureClientPort": port,
        "secureClientPortAddress": "127.0.0.1",
        "ssl.keyStore.location": key,
        "ssl.trustStore.location": trusted,
        "ssl.clientAuth": clients,
    }
    with ZooKeeperServer(settings=settings):
        # Java is slow the first time, and how slow is not under test.
        eventually(lambda: _shakes_hands(port, key), what="it speaks TLS")
        yield f"zookeeper://127.0.0.1:{port}"


def _shakes_hands(port: int, key: str) -> bool:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(key)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            context.wrap_socket(connection).close()
    except OSError:
        return False
    return True


def test_tls_with_a_trusted_certificate(flavour, secure, certificate):
    locks = flavour.locks(secure, use_ssl=True, ca=str(certificate[1]), request_timeout=10)

    lease = locks.lock("door").acquire(timeout=20)

    assert lease.token > 0
    lease.release()


def test_a_certificate_that_nobody_trusts(refusal, secure):
    error = refusal(secure, within=5.0, use_ssl=True)

    assert isinstance(error, ConfigurationError)
    assert "certificate must be trusted" in str(error)


def test_no_tls_to_a_server_that_wants_it(refusal, secure):
    error = refusal(secure, within=1.0)

    assert isinstance(error, BackendUnavailable)
    assert "use_ssl" in str(error)


def test_tls_to_a_server_without(refusal, certificate):
    error = refusal(shared_server().url, within=1.0, use_ssl=True, ca=str(certificate[1]))

    assert isinstance(error, (BackendUnavailable, ConfigurationError))
    assert "use_ssl" in str(error)


def test_a_file_of_certificates_that_is_not_there(refusal, secure, tmp_path):
    missing = str(tmp_path / "missing.pem")
    error = refusal(secure, within=5.0, use_ssl=True, ca=missing)

    assert isinstance(error, ConfigurationError)
    assert "cannot be read" in str(error)


@pytest.fixture(scope="module")
def mutual(certificate):
    """The address of a server that demands a client certificate, and trusts ours."""
    with _server(certificate, clients="need") as address:
        yield address


def test_a_certificate_with_its_key_in_one_file(flavour, mutual, certificate):
    """A certfile that also contains the key is enough, because many tools write such files."""
    key, trusted = map(str, certificate)
    locks = flavour.locks(mutual, use_ssl=True, ca=trusted, certfile=key)

    locks.lock("door").acquire(timeout=5).release()


def test_a_certificate_without_its_key(refusal, mutual, certificate):
    trusted = str(certificate[1])
    error = refusal(mutual, within=2.0, use_ssl=True, ca=trusted, certfile=trusted)

    assert isinstance(error, ConfigurationError)
    assert "keyfile" in str(error)


def test_a_key_without_its_certificate(flavour, certificate):
    """A key without a certificate is refused before anything is sent."""
    with pytest.raises(ConfigurationError, match="certfile"):
        flavour.locks("zookeeper://127.0.0.1:1", use_ssl=True, keyfile=str(certificate[0]))
