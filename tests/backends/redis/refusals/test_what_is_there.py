"""What is at the address: nothing, another protocol, TLS or none, an old server."""

from __future__ import annotations

import socket
import ssl

import pytest
from refusals import PASSWORD
from servers.redis import shared_server

from lockfast import BackendUnavailable, ConfigurationError
from lockfast.backends.redis import errors
from lockfast_challenge.servers.certificates import certificates
from lockfast_challenge.servers.redis import RedisServer
from lockfast_challenge.servers.server import free_ports


def test_a_port_where_nothing_listens(refusal):
    error = refusal(f"redis://:{PASSWORD}@127.0.0.1:{free_ports(1)[0]}")

    assert isinstance(error, BackendUnavailable)
    assert "start the server, or correct the host and the port" in str(error)


def test_a_host_without_an_address(refusal):
    """Two dots side by side are in no host name, so no name service has to be reached."""
    error = refusal(f"redis://:{PASSWORD}@no..such.host:6379")

    assert isinstance(error, BackendUnavailable)
    assert "this host name has no address; correct it, or check DNS" in str(error)


@pytest.mark.parametrize("has_answered", [False, True])
def test_a_name_service_that_does_not_answer(has_answered):
    """The host may well have an address, and whether the server answered before says nothing."""
    failed = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    error = errors.unreachable(failed, where="redis://h", has_answered=has_answered)

    assert isinstance(error, BackendUnavailable)
    assert str(error) == (
        "redis://h: the name service did not answer, so the address of the host is unknown; check "
        "DNS on this machine, or give the address itself"
    )


def test_a_server_that_says_nothing(refusal, talker):
    error = refusal(f"redis://:{PASSWORD}@127.0.0.1:{talker().port}", within=0.5)

    assert isinstance(error, BackendUnavailable)
    assert "did not answer in time; is the address right" in str(error)
    assert "rediss://" in str(error)


@pytest.mark.parametrize(
    ("greeting", "answer"),
    [
        (b"", b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"),
        (b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", b""),
        (b"220 mail.example.com ESMTP\r\n", b"500 unrecognised\r\n"),
    ],
    ids=["HTTP", "SSH", "SMTP"],
)
def test_a_server_of_another_kind(refusal, talker, greeting, answer):
    error = refusal(talker(greeting=greeting, answer=lambda _: answer).url)

    assert isinstance(error, ConfigurationError)
    assert "answers, but not as a Redis server does" in str(error)


def test_tls_to_a_server_without(refusal):
    """A server without TLS never replies: it takes the handshake for an unfinished line."""
    # The handshake has 95 % of this time; a busy machine needs the rest to report it.
    error = refusal(f"rediss://:{PASSWORD}@127.0.0.1:{shared_server().port}", within=6.0)

    assert isinstance(error, BackendUnavailable)
    assert str(error).endswith(
        "did not answer the TLS handshake; if it does not use TLS, write redis://"
    )


@pytest.fixture(scope="module")
def tls():
    """The port of a TLS server that asks for no client certificate."""
    with RedisServer("--tls-auth-clients", "no", tls=certificates()) as server:
        yield server.port


def test_no_tls_to_a_server_that_wants_it(refusal, tls):
    error = refusal(f"redis://:{PASSWORD}@127.0.0.1:{tls}")

    assert isinstance(error, BackendUnavailable)
    assert "does it want TLS (then rediss://)?" in str(error)


def test_a_certificate_that_nobody_trusts(refusal, tls):
    error = refusal(f"rediss://:{PASSWORD}@127.0.0.1:{tls}")

    assert isinstance(error, ConfigurationError)
    assert "the server's certificate is not trusted here" in str(error)
    assert str(error).endswith("; give the certificate of its authority as tls_ca")


def test_tls_that_an_option_turned_on_to_a_server_without(refusal):
    """The hint is about what the client does, not about the scheme."""
    url = f"redis://:{PASSWORD}@127.0.0.1:{shared_server().port}?tls=true"

    error = refusal(url, within=6.0)

    assert str(error).endswith("; if it does not use TLS, leave the TLS options out")


def test_tls_to_a_server_that_answers_without(refusal, talker):
    error = refusal(f"rediss://127.0.0.1:{talker(greeting=b'-ERR who is there').port}")

    assert isinstance(error, ConfigurationError)
    assert "no TLS connection could be made" in str(error)
    assert "if the server does not use TLS, write redis://" in str(error)


def test_tls_to_a_server_that_closes_the_connection(refusal, talker):
    """A server without TLS may do that, but also one that restarts, so the error is an outage."""
    error = refusal(f"rediss://127.0.0.1:{talker(answer=lambda _: None).port}")

    assert isinstance(error, BackendUnavailable)
    assert "closed the connection before it had answered; is it a Redis server" in str(error)
    assert str(error).endswith(
        "does it speak TLS (if not, write redis://), or ask for our certificate (tls_cert)?"
    )


def test_a_certificate_for_another_name(refusal, tls):
    error = refusal(f"rediss://localhost:{tls}", tls_ca=certificates().authority)

    assert isinstance(error, ConfigurationError)
    assert "the server's certificate is not valid for this host name" in str(error)
    assert str(error).endswith("; use the name in the certificate, or tls_verify=ca")


def test_a_certificate_that_has_expired():
    """Neither the authority nor the name is wrong, so the error names the certificate's mistake."""
    expired = ssl.SSLCertVerificationError(1, "certificate verify failed")
    expired.verify_code, expired.verify_message = 10, "certificate has expired"

    error = errors.unreachable(expired, where="rediss://h", uses_tls=True)

    assert isinstance(error, ConfigurationError)
    assert str(error) == (
        "rediss://h: the server's certificate is not accepted (certificate has expired); replace "
        "it, or correct the clock of this machine"
    )


HELLO = b"%3\r\n+server\r\n+redis\r\n+version\r\n+6.2.14\r\n+proto\r\n:3\r\n"


def before_seven(data: bytes) -> bytes:
    """Answer as Redis 6.2 does, which rejects scripts that begin with `#!lua`."""
    answers = b""
    for command in data.split(b"*")[1:]:
        if b"HELLO" in command:
            answers += HELLO
        elif b"EVALSHA" in command:
            answers += b"-NOSCRIPT No matching script. Please use EVAL.\r\n"
        elif b"LOAD" in command:
            answers += b"-ERR Error compiling script (new function): user_script:1: "
            answers += b"unexpected symbol near '#'\r\n"
            return answers  # the script contains stars, so stop splitting at them
        else:
            answers += b"+OK\r\n"
    return answers


def before_six(data: bytes) -> bytes:
    """Answer as Redis 5 does, which has no HELLO command."""
    del data
    return b"-ERR unknown command `HELLO`, with args beginning with: `3`, \r\n"


@pytest.mark.parametrize("answer", [before_seven, before_six])
def test_a_server_that_is_too_old(refusal, talker, answer):
    error = refusal(talker(answer=answer).url)

    assert isinstance(error, ConfigurationError)
    assert "Redis 7.0 or newer, or Valkey, is needed" in str(error)


def test_a_server_in_protected_mode(refusal, talker):
    """A server in protected mode sends its refusal before any request."""
    greeting = b"-DENIED Redis is running in protected mode because protected mode is enabled\r\n"

    error = refusal(talker(greeting=greeting).url)

    assert isinstance(error, ConfigurationError)
    assert "give it a password, or bind it" in str(error)
