"""The options that we leave to libpq work: TLS, Unix sockets, environment and service files."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from lockfast import ConfigurationError
from lockfast_challenge.servers.certificates import certificates, copied_for
from lockfast_challenge.servers.postgresql import PostgresqlServer

IS_TLS = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
USER = "SELECT current_user::text, current_setting('application_name')"

# TCP connections have to use TLS, and the user guest has to give a password.
ACCESS = """
local all all trust
hostssl all guest 127.0.0.1/32 scram-sha-256
hostssl all all 127.0.0.1/32 trust
"""


@pytest.fixture(scope="module")
def guarded() -> Iterator[PostgresqlServer]:
    one = PostgresqlServer(access=ACCESS)
    files = copied_for(one)
    one.settings |= {"ssl": "on", "ssl_cert_file": files.certificate, "ssl_key_file": files.key}
    with one:
        one.run("CREATE ROLE guest LOGIN PASSWORD 's3cret'")
        yield one


@pytest.mark.parametrize("sslmode", ["require", "verify-ca", "verify-full"])
def test_tls_by_an_authority_of_ones_own(wire_to, guarded, sslmode):
    transport = wire_to(guarded.url(), sslmode=sslmode, sslrootcert=certificates().authority)

    assert transport.ask(IS_TLS) == [(True,)]


def test_tls_options_may_stand_in_the_url(wire_to, guarded):
    options = f"sslmode=verify-full&sslrootcert={certificates().authority}"

    assert wire_to(f"{guarded.url()}?{options}").ask(IS_TLS) == [(True,)]


def test_a_certificate_of_another_host_is_refused(wire_to, guarded):
    """The certificate is valid for 127.0.0.1, and for no name of this machine."""
    url = guarded.url().replace("127.0.0.1", "localhost")
    transport = wire_to(url, sslmode="verify-full", sslrootcert=certificates().authority)

    with pytest.raises(ConfigurationError, match="no TLS connection could be made"):
        transport.ask(IS_TLS)


def test_a_certificate_of_an_unknown_authority_is_refused(wire_to, guarded, server):
    other = str(certificates().certificate)
    transport = wire_to(guarded.url(), sslmode="verify-full", sslrootcert=other)

    with pytest.raises(ConfigurationError, match="no TLS connection could be made"):
        transport.ask(IS_TLS)


@pytest.mark.parametrize("form", ["postgresql:///postgres?host={host}&port={port}&user=postgres"])
def test_a_socket_of_this_machine(wire_to, server, form):
    transport = wire_to(form.format(host=server.directory, port=server.port))

    assert transport.ask("SELECT inet_client_addr() IS NULL") == [(True,)]


def test_a_socket_by_its_percent_encoded_path(wire_to, server):
    host = str(server.directory).replace("/", "%2F")

    transport = wire_to(f"postgresql://postgres@{host}:{server.port}/postgres")

    assert transport.ask("SELECT inet_client_addr() IS NULL") == [(True,)]


def test_the_password_of_the_environment(wire_to, guarded, monkeypatch):
    wrong = wire_to(guarded.url(user="guest"))
    with pytest.raises(ConfigurationError, match="does not know this user and password"):
        wrong.ask(USER)
    monkeypatch.setenv("PGPASSWORD", "s3cret")

    assert wire_to(guarded.url(user="guest")).ask(USER)[0][0] == "guest"


def test_a_password_file(wire_to, guarded, monkeypatch, tmp_path):
    path = tmp_path / "passwords"
    path.write_text(f"127.0.0.1:{guarded.port}:*:guest:s3cret\n")
    path.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(path))

    assert wire_to(guarded.url(user="guest")).ask(USER)[0][0] == "guest"


@pytest.mark.parametrize("by", ["url", "environment"])
def test_a_service_file(wire_to, guarded, monkeypatch, tmp_path, by):
    path = tmp_path / "services"
    path.write_text(
        f"[shop]\nhost=127.0.0.1\nport={guarded.port}\nuser=guest\npassword=s3cret\n"
        f"dbname=postgres\nsslmode=require\napplication_name=shop\n"
    )
    monkeypatch.setenv("PGSERVICEFILE", str(path))
    if by == "environment":
        monkeypatch.setenv("PGSERVICE", "shop")

    transport = wire_to("postgresql://?service=shop" if by == "url" else "postgresql://")

    assert transport.ask(USER) == [("guest", "shop")]


def test_where_nothing_is_said_the_environment_says_it(wire_to, server, monkeypatch):
    monkeypatch.setenv("PGHOST", str(server.directory))
    monkeypatch.setenv("PGPORT", str(server.port))
    monkeypatch.setenv("PGUSER", "postgres")
    monkeypatch.setenv("PGDATABASE", "postgres")

    assert wire_to("postgresql://").ask(USER)[0][0] == "postgres"


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
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
        assert "USAGE on their schema" in told
        assert "docs/how-to/from-pg-advisory-lock.md" in told
        assert "s3cret" not in told


@pytest.mark.parametrize("value", ["table", "Advisory", ""])
def test_any_other_mode_is_an_unknown_option(flavour, value):
    with pytest.raises(ConfigurationError, match=r"unknown option mode for postgresql://"):
        flavour.locks(f"postgresql://127.0.0.1:1/shop?mode={value}")
