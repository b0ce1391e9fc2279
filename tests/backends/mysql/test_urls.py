"""The connection options that we leave to the drivers work: TLS and Unix sockets."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from lockfast import ConfigurationError
from lockfast.backends.mysql.address import address_of_url
from lockfast.backends.sql.steps import Query
from lockfast_challenge.servers.certificates import certificates, copied_for
from lockfast_challenge.servers.mysql import MariadbServer

CIPHER = "SHOW SESSION STATUS LIKE 'Ssl_cipher'"


@pytest.fixture(scope="module")
def guarded() -> Iterator[MariadbServer]:
    """A server with TLS, and with a user who has to present a certificate."""
    one = MariadbServer()
    files = copied_for(one)
    one.options = (
        f"--ssl-ca={files.authority}",
        f"--ssl-cert={files.certificate}",
        f"--ssl-key={files.key}",
    )
    with one:
        one.run("CREATE DATABASE test")
        for user, what in (("guest", "SSL"), ("known", "X509")):
            one.run(f"CREATE USER {user}@'%%' IDENTIFIED BY 's3cret' REQUIRE {what}")
            one.run(f"GRANT ALL ON test.* TO {user}@'%%'")
        yield one


def cycle(flavour, url: str, **options: str) -> str:
    """Return the cipher with which a lock was taken and released."""
    locks = flavour.locks(url, request_timeout=20.0, **options)
    locks.lock("door").acquire(timeout=20).release()
    transport = getattr(locks, "_inner", locks)._client.backend._transport
    deadline = flavour.clock.now() + 20
    return str(flavour.call(transport.ask, Query(CIPHER), deadline=deadline)[0][1])


def test_tls_by_an_authority_of_ones_own(flavour, guarded):
    url = guarded.url(user="guest", password="s3cret")

    assert cycle(flavour, url, ssl_ca=certificates().authority)


def test_without_an_option_both_flavours_speak_plainly(flavour, guarded):
    """Without options, neither flavour uses TLS to a server whose identity nobody has checked."""
    assert cycle(flavour, guarded.url()) == ""


def test_tls_options_may_stand_in_the_url(flavour, guarded):
    url = guarded.url(user="guest", password="s3cret")

    assert cycle(flavour, f"{url}?ssl_ca={certificates().authority}")


def test_a_certificate_of_our_own(flavour, guarded):
    found = certificates()
    shown = {"ssl_cert": found.certificate, "ssl_key": found.key}
    url = guarded.url(user="known", password="s3cret")

    assert cycle(flavour, url, ssl_ca=found.authority, **shown)


def test_a_certificate_of_another_host_is_refused(flavour, guarded):
    """The certificate is valid for 127.0.0.1, and for no name of this machine."""
    url = guarded.url(user="guest", password="s3cret").replace("127.0.0.1", "localhost")

    with pytest.raises(ConfigurationError, match="certificate is not valid for this host name"):
        cycle(flavour, url, ssl_ca=certificates().authority)


def test_a_certificate_of_an_unknown_authority_is_refused(flavour, guarded):
    url = guarded.url(user="guest", password="s3cret")

    with pytest.raises(ConfigurationError, match="certificate is not trusted here"):
        cycle(flavour, url, ssl="true")


def test_files_that_were_replaced_are_used_by_the_next_connection(tmp_path):
    """Certificates are renewed while programs run; a program need not be restarted for that."""
    authority, found = tmp_path / "authority.pem", certificates()
    authority.write_bytes(Path(found.authority).read_bytes())
    url = "mysql://me@here/shop"
    address = address_of_url(url, where=url, options={"tls_ca": str(authority)})
    before = address.driver_settings()["ssl"]

    authority.write_bytes(Path(found.certificate).read_bytes())

    after = address.driver_settings()["ssl"]
    assert before.get_ca_certs() != after.get_ca_certs()


@pytest.mark.parametrize("how", ["in the URL", "beside it"])
def test_a_socket_of_this_machine(flavour, server, how):
    path = str(server.directory / "socket")
    url = "mariadb://root@localhost/test"
    in_url, beside = (
        (f"{url}?unix_socket={path}", {})
        if how == "in the URL"
        else (
            url,
            {"unix_socket": path},
        )
    )

    assert cycle(flavour, in_url, **beside) == ""


@pytest.mark.parametrize("scheme", ["mysql", "mariadb"])
def test_the_removed_advisory_mode_is_refused_saying_what_to_use_instead(flavour, scheme):
    """An old URL must not silently change what the lock excludes."""
    url = f"{scheme}://app:s3cret@127.0.0.1:1/shop"

    for open_it in (
        partial(flavour.locks, f"{url}?mode=advisory"),
        partial(flavour.locks, url, mode="advisory"),
    ):
        with pytest.raises(ConfigurationError) as caught:
            open_it()

        told = str(caught.value)
        assert told.startswith(f"{scheme}:// no longer has mode=advisory: leave the option out")
        assert "lockfast init" in told
        assert "schema" not in told  # on MySQL, a schema is the same as a database
        assert "docs/how-to/from-pg-advisory-lock.md" in told
        assert "s3cret" not in told


@pytest.mark.parametrize("value", ["table", "Advisory", ""])
def test_any_other_mode_is_an_unknown_option(flavour, value):
    with pytest.raises(ConfigurationError, match=r"unknown option mode for mysql://"):
        flavour.locks(f"mysql://127.0.0.1:1/shop?mode={value}")
