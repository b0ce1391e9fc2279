"""Errors are sentences that an operator can act on, and show no password."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator

import pytest
from backends.mysql import each_server
from refusals import PASSWORD

from lockfast import BackendUnavailable, ConfigurationError, Locks
from lockfast.backends.mysql import errors
from lockfast.backends.mysql.schema import MysqlTables
from lockfast_challenge.servers.mysql import MariadbServer, MysqlCompatibleServer, MysqlServer

EVERYTHING = "SELECT, INSERT, UPDATE, DELETE, CREATE"


@pytest.fixture(scope="module", params=each_server.KINDS)
def guarded(request) -> Iterator[MysqlCompatibleServer]:
    """A server with users who may do little; tests change its settings at will."""
    with request.param("--max-connections=20") as one:
        one.run("CREATE DATABASE shop")
        for user, rights in (("app", EVERYTHING), ("reader", "SELECT"), ("clerk", "INSERT")):
            one.run(f"CREATE USER {user}@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'")
            one.run(f"GRANT {rights} ON shop.* TO {user}@'127.0.0.1'")
        yield one


def url_of(
    server: MysqlCompatibleServer, user: str, password: str = PASSWORD, database: str = "shop"
):
    return f"mariadb://{user}:{password}@{server.address}/{database}"


def new_table() -> str:
    return f"t{os.urandom(4).hex()}"


@pytest.mark.parametrize(
    ("login", "database", "sentence"),
    [
        (("app", "wrong-" + PASSWORD), "shop", "rejected this user name or password"),
        (("missing", PASSWORD), "shop", "rejected this user name or password"),
        (("app", PASSWORD), "missing", "may not use the database"),
        (("root", ""), "missing", "there is no such database"),
    ],
)
def test_who_may_not_come_in_is_told_why(refusal, guarded, login, database, sentence) -> None:
    error = refusal(url_of(guarded, *login, database))

    assert isinstance(error, ConfigurationError)
    assert sentence in str(error)


@pytest.mark.parametrize("user", ["reader", "clerk"])
def test_missing_rights_are_named(refusal, guarded, user) -> None:
    error = refusal(url_of(guarded, user), table=new_table())

    assert isinstance(error, ConfigurationError)
    assert "it needs SELECT, INSERT, UPDATE and DELETE on the tables" in str(error)


def test_a_server_that_takes_no_writes(refusal, guarded) -> None:
    guarded.run("SET GLOBAL read_only = 1")
    try:
        error = refusal(url_of(guarded, "app"), table=new_table())
    finally:
        guarded.run("SET GLOBAL read_only = 0")

    assert isinstance(error, ConfigurationError)
    assert "takes no writes" in str(error)


def test_a_server_without_room_for_another_connection(refusal, guarded) -> None:
    guarded.run("ALTER USER app@'127.0.0.1' WITH MAX_USER_CONNECTIONS 1")
    taken = guarded.connect(user="app", password=PASSWORD)
    try:
        error = refusal(url_of(guarded, "app"))
    finally:
        taken.close()
        guarded.run("ALTER USER app@'127.0.0.1' WITH MAX_USER_CONNECTIONS 0")

    assert isinstance(error, BackendUnavailable)
    assert "used up what it may" in str(error)


@pytest.mark.parametrize(
    ("definition", "sentence"),
    [
        ("(k int)", "it has no column 'key'"),
        ("ENGINE=MyISAM", "is a table of MyISAM, which has no transactions"),
        ("COMMENT='Lockfast, format 9'", "was made by a newer Lockfast (format 9"),
        ("MODIFY token varchar(9)", "its column 'token' is varchar instead of bigint"),
    ],
)
def test_a_table_of_that_name_that_is_not_ours(refusal, guarded, definition, sentence) -> None:
    table = new_table()
    if definition.startswith("("):
        guarded.run(f"CREATE TABLE {table}_door {definition}", database="shop")
    else:
        for statement in MysqlTables(table).definition():
            guarded.run(statement, database="shop")
        guarded.run(f"ALTER TABLE {table}_door {definition}", database="shop")

    error = refusal(url_of(guarded, "app"), table=table)

    assert isinstance(error, ConfigurationError)
    assert sentence in str(error)
    assert guarded.run(f"SELECT count(*) FROM {table}_door", database="shop") == ((0,),)


def test_a_server_whose_clock_stands_still_in_a_statement(refusal) -> None:
    with MariadbServer("--sysdate-is-now") as one:
        one.run("CREATE DATABASE shop")

        error = refusal(f"mariadb://root@{one.address}/shop")

    assert isinstance(error, ConfigurationError)
    assert "--sysdate-is-now" in str(error)


def test_a_server_that_logs_statements(refusal) -> None:
    with MariadbServer("--log-bin", "--binlog-format=STATEMENT") as one:
        one.run("CREATE DATABASE shop")

        error = refusal(f"mariadb://root@{one.address}/shop")

    assert isinstance(error, ConfigurationError)
    assert "set binlog_format to ROW or MIXED" in str(error)


def test_nobody_listens(refusal) -> None:
    error = refusal(f"mysql://app:{PASSWORD}@127.0.0.1:1/shop")

    assert isinstance(error, BackendUnavailable)
    assert str(error).startswith("nothing listens at mysql://***@127.0.0.1:1/shop")


def test_a_server_that_says_nothing(refusal, talker) -> None:
    error = refusal(f"mysql://app:{PASSWORD}@127.0.0.1:{talker().port}/shop", within=0.5)

    assert isinstance(error, BackendUnavailable)


@pytest.mark.parametrize(
    "greeting",
    [b"HTTP/1.1 400 Bad Request\r\n\r\n" * 9, b"-ERR unknown\r\n", b"\x05\0\0\0hello", b"\0" * 99],
    ids=["http", "redis", "gibberish", "zeros"],
)
def test_a_server_of_another_kind(refusal, talker, greeting) -> None:
    port = talker(greeting=greeting).port

    error = refusal(f"mysql://app:{PASSWORD}@127.0.0.1:{port}/shop", within=1.0)

    assert isinstance(error, ConfigurationError | BackendUnavailable)


def test_tls_where_the_server_has_none_or_a_certificate_of_its_own(refusal, guarded) -> None:
    """MariaDB has no TLS before it is set up; MySQL makes a certificate that nobody trusts."""
    error = refusal(url_of(guarded, "app"), ssl=True, within=2.0)

    sentence = {
        MariadbServer: "no TLS connection could be made",
        MysqlServer: "the server's certificate is not trusted here",
    }
    assert isinstance(error, ConfigurationError)
    assert sentence[type(guarded)] in str(error)


def test_a_server_that_ends_the_tls_handshake_may_be_full_or_restarting() -> None:
    """A ConfigurationError would end claims that wait."""
    error = ConnectionError("cannot connect")
    error.__cause__ = ssl.SSLEOFError(8, "EOF occurred in violation of protocol")

    told = errors.unreachable(error, where="mysql://here")

    assert isinstance(told, BackendUnavailable)
    assert "closed the connection before it had answered" in str(told)


@pytest.mark.parametrize(
    ("url", "options", "sentence"),
    [
        ("mysql://app@host", {}, "names no database"),
        ("mysql://app:p@ss/w@host/shop", {}, "is written %2F"),
        ("mysql://host/shop", {}, "names no user"),
        ("mysql://app@host:99999/shop", {}, "the port is a number below 65536"),
        ("mysql://app@host/shop", {"table": "a`b"}, "letters, digits or _ are accepted"),
        ("mysql://app@host/shop?table=a%60b", {}, "letters, digits or _ are accepted"),
        ("mysql://app@host/shop?table=a%27b", {}, "letters, digits or _ are accepted"),
        ("mysql://app@host/shop", {"connections": 0}, "a number from 1 to 100 is accepted"),
        ("mysql://app@host/shop?connections=many", {}, "a number from 1 to 100 is accepted"),
        ("mysql://app@host/shop?ssl=perhaps", {}, "true or false is accepted"),
        ("mysql://app@host/shop?ssl_ca=/missing.pem", {}, "tls_ca=/missing.pem cannot be read"),
        ("mysql://app@host/shop?charset=latin1", {}, "charset"),
    ],
)
def test_what_can_be_told_without_a_server(url, options, sentence) -> None:
    with pytest.raises((ConfigurationError, TypeError), match=sentence):
        Locks(url, **options)
