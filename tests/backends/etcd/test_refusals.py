"""Refused requests raise errors that name the cluster and say what to do."""

from __future__ import annotations

from typing import Any

import pytest
from backends.etcd.transports import OpenWire
from refusals import PASSWORD
from servers.etcd import shared_server, shared_tls_server

from lockfast import (
    BackendMisbehaved,
    BackendUnavailable,
    ConfigurationError,
    LockError,
    OutcomeUnknown,
)
from lockfast.backends.etcd import address, errors, requests
from lockfast.backends.etcd.http2.grpc import GrpcError
from lockfast_challenge.servers.certificates import certificates
from lockfast_challenge.servers.etcd import EtcdServer

WHERE = "etcd://127.0.0.1:2379"


@pytest.mark.parametrize(
    ("refusal", "kind", "words"),
    [
        (("RESOURCE_EXHAUSTED", "mvcc: database space exceeded"), BackendUnavailable, "NOSPACE"),
        (("RESOURCE_EXHAUSTED", "too many requests"), BackendUnavailable, "try again"),
        (("INVALID_ARGUMENT", "user name is empty"), ConfigurationError, "a user"),
        (("INVALID_ARGUMENT", "authentication failed, in"), ConfigurationError, "password"),
        (
            ("FAILED_PRECONDITION", "authentication is not enabled"),
            ConfigurationError,
            "no user name",
        ),
        (("PERMISSION_DENIED", "permission denied"), ConfigurationError, "begins with ours/"),
        (("INVALID_ARGUMENT", "request is too large"), ConfigurationError, "max-request-bytes"),
        (("INVALID_ARGUMENT", "too many operations in txn"), ConfigurationError, "max-txn-ops"),
        (("UNAVAILABLE", "rpc not supported for learner"), BackendUnavailable, "learner"),
        (("DATA_LOSS", "corrupt cluster"), BackendUnavailable, "CORRUPT"),
        (("UNAVAILABLE", "no leader"), BackendUnavailable, "leader"),
        (("UNAVAILABLE", "request timed out"), OutcomeUnknown, "timed out"),
        (("UNAVAILABLE", "leader changed"), OutcomeUnknown, "leader changed"),
        (("UNKNOWN", "context deadline exceeded"), OutcomeUnknown, "deadline exceeded"),
        (("DEADLINE_EXCEEDED", "x"), OutcomeUnknown, "in time"),
        (("UNIMPLEMENTED", "unknown method"), ConfigurationError, "3.4 or newer"),
        (("INTERNAL", "boom"), BackendMisbehaved, "boom"),
    ],
)
def test_what_a_member_says_becomes_a_sentence(refusal, kind, words):
    code, text = refusal
    error = errors.refused(GrpcError(code, f"etcdserver: {text}"), where=WHERE, root=b"ours/")

    assert isinstance(error, kind)
    assert issubclass(kind, type(error)) or isinstance(error, errors.OutOfSpace)
    assert WHERE in str(error)
    assert words in str(error)


@pytest.mark.parametrize(
    "url",
    [
        "etcd://",
        "etcd:///prefix",
        "etcd://host:port",
        "etcd://host:70000",
        "etcd://user@host",
    ],
)
def test_a_url_that_cannot_be_meant(url):
    with pytest.raises(ConfigurationError):
        address.of_url(url, where=url, namespace="test", options={})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tls_ca": "x"}, "write etcds://"),
        ({"username": "clerk"}, "one is missing"),
    ],
)
def test_options_that_do_not_go_together(options, words):
    with pytest.raises(ConfigurationError, match=words):
        address.of_url(WHERE, where=WHERE, namespace="test", options=options)


def test_a_url_says_who_where_and_what():
    place = address.of_url(
        "etcds://clerk:p%40ss@h1,[::1]:5,h3:70/shop/locks/",
        where="etcds://***@h1",
        namespace="app",
        options={"tls_verify": "ca"},
    )

    assert [str(one) for one in place.endpoints] == ["h1:2379", "[::1]:5", "h3:70"]
    assert (place.user, place.password) == ("clerk", "p@ss")
    assert place.root == b"shop/locks/app/"
    assert place.tls.verify == "ca"
    assert "p@ss" not in repr(place)


# -- real servers --------------------------------------------------------------------------


@pytest.fixture
def refused(wire_to):
    """Return a function that has a request refused, checks the message, and returns the error."""

    def asked(transport: OpenWire, key: bytes, within: float) -> None:
        answer = transport.ask(requests.put(key, b""), within=within)
        assert isinstance(answer, GrpcError)
        raise errors.refused(answer, where=transport.transport.where)

    def refused(url: str, key: bytes = b"test", **options: Any) -> LockError:
        transport = wire_to(url, **options)
        with pytest.raises(LockError) as told:
            asked(transport, key, 10.0)
        assert PASSWORD not in str(told.value)
        assert "\n" not in str(told.value)
        assert url.rpartition("@")[2] in str(told.value)
        return told.value

    return refused


@pytest.fixture(scope="module")
def guarded():
    with EtcdServer() as server:
        yield server.let_in("clerk", PASSWORD, prefix="ours/")


def _as(login: str, server: EtcdServer) -> str:
    return server.url.replace("://", f"://{login}@")


def test_no_user_where_one_is_asked_for(refused, guarded):
    error = refused(guarded.url)

    assert isinstance(error, ConfigurationError)
    assert "user" in str(error)


@pytest.mark.parametrize("login", [f"clerk:wrong-{PASSWORD}", f"nobody:{PASSWORD}"])
def test_a_wrong_password_and_an_unknown_user(refused, guarded, login):
    error = refused(_as(login, guarded))

    assert isinstance(error, ConfigurationError)
    assert "rejected this user name" in str(error)


def test_keys_that_a_user_may_not_use(refused, guarded):
    error = refused(_as(f"clerk:{PASSWORD}", guarded), b"theirs")

    assert isinstance(error, ConfigurationError)
    assert "may not use our keys" in str(error)


def test_a_user_where_none_is_known(refused):
    error = refused(_as(f"clerk:{PASSWORD}", shared_server()))

    assert isinstance(error, ConfigurationError)
    assert "leave it out" in str(error)


def test_tls_to_a_server_without(refused):
    error = refused(f"etcds://{shared_server().address}", ssl_ca_certs=certificates().authority)

    assert isinstance(error, ConfigurationError | BackendUnavailable)
    assert "etcd://" in str(error)


def test_no_tls_to_a_server_that_wants_it(refused):
    error = refused(f"etcd://{shared_tls_server().address}")

    assert isinstance(error, ConfigurationError | BackendUnavailable)
    assert "etcds://" in str(error)


def test_a_certificate_that_nobody_trusts(refused):
    error = refused(shared_tls_server().url)

    assert isinstance(error, ConfigurationError)
    assert "tls_ca" in str(error)


def test_a_certificate_of_somebody_else(refused):
    """The certificate is valid for 127.0.0.1, and for no host name."""
    server = shared_tls_server()
    url = f"etcds://localhost:{server.port}"

    error = refused(url, **server.client_options)

    assert isinstance(error, ConfigurationError)
    assert "localhost" in str(error)


def test_no_certificate_where_one_is_asked_for(refused):
    server = shared_tls_server()

    error = refused(server.url, ssl_ca_certs=server.tls.authority)

    assert isinstance(error, ConfigurationError | BackendUnavailable)
    assert "tls_cert" in str(error)


def test_a_file_of_certificates_that_is_not_there(tmp_path):
    missing = str(tmp_path / "missing.pem")

    with pytest.raises(ConfigurationError, match=r"tls_ca=.*/missing\.pem cannot be read"):
        address.of_url(
            shared_tls_server().url, where=WHERE, namespace="test", options={"tls_ca": missing}
        )


def test_a_server_that_is_full(refused):
    """A full server accepts nothing new, and the error says so."""
    with EtcdServer("--quota-backend-bytes", "200000") as server:
        server.fill()

        error = refused(server.url)

    assert isinstance(error, BackendUnavailable)
    assert "NOSPACE" in str(error)
