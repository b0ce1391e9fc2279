"""TLS on both sides, on one side only, and a certificate that nobody trusts."""

from __future__ import annotations

import pytest
from zookeeper_servers import ZooKeeperServer, free_ports, shared_server

from holdfast import BackendUnavailable, ConfigurationError


@pytest.fixture(scope="module")
def secure(certificate):
    """The address of a server that speaks TLS there."""
    key, trusted = map(str, certificate)
    [port] = free_ports(1)
    settings = {
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "secureClientPort": port,
        "secureClientPortAddress": "127.0.0.1",
        "ssl.keyStore.location": key,
        "ssl.trustStore.location": trusted,
        "ssl.clientAuth": "none",
    }
    with ZooKeeperServer(settings=settings):
        yield f"zookeeper://127.0.0.1:{port}"


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
