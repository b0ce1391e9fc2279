"""No default of a server, a database or a user changes what our statements mean or cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from backends.sql.lent import PATIENT, lent_pool
from backends.sql.session_variable_laws import HostileDefaultsLaws, unclear
from servers.pgbouncer import PgBouncer
from servers.postgresql import shared_server

from lockfast import ConfigurationError
from lockfast.backends.postgresql.session_variables import LEFT, PINNED, PINNED_FOR_SESSIONS
from lockfast.backends.sql.steps import Query

# Time limits are short, but long enough for a machine that stalls: the first statements of a
# session, which pin them, are subject to them.
HOSTILE = {
    "search_path": "evil, pg_catalog",
    "quote_all_identifiers": "on",
    "default_table_access_method": "odd",
    "statement_timeout": "17s",
    "transaction_timeout": "17s",
    "lock_timeout": "1ms",
    "idle_in_transaction_session_timeout": "17s",
    "exit_on_error": "on",
    "enable_seqscan": "on",
    "enable_bitmapscan": "on",
    "enable_indexscan": "off",
    "enable_nestloop": "off",
    "jit": "on",
    "max_parallel_workers_per_gather": "4",
    "default_transaction_isolation": "serializable",
    "idle_session_timeout": "17s",
    # -- not pinned ----------------------------------------------------------------------------
    "DateStyle": "SQL, DMY",
    "TimeZone": "Asia/Kolkata",
    "bytea_output": "escape",
    "client_min_messages": "debug1",
    "enable_sort": "off",
    "force_parallel_mode": "on",
    "plan_cache_mode": "force_generic_plan",
    "standard_conforming_strings": "off",
    "transform_null_equals": "on",
}
# With these, our leases would end in 1970, and our tables would use another access method.
EVIL = (
    "CREATE SCHEMA evil",
    "CREATE FUNCTION evil.date_part(text, timestamptz) RETURNS float8 LANGUAGE sql AS 'SELECT 0.0'",
    "CREATE ACCESS METHOD odd TYPE TABLE HANDLER heap_tableam_handler",
)
SETTABLE = "context IN ('user', 'superuser', 'backend', 'superuser-backend')"


@pytest.fixture(scope="module")
def hostile() -> Iterator[str]:
    """The name of a database whose defaults are all hostile."""
    server = shared_server()
    known = {name for (name,) in server.run("SELECT name FROM pg_settings")}
    server.run("CREATE DATABASE hostile")
    for statement in EVIL:
        server.run(statement, database="hostile")
    for name in HOSTILE.keys() & known:
        values = HOSTILE[name] if name == "search_path" else f"'{HOSTILE[name]}'"
        server.run(f"ALTER DATABASE hostile SET {name} = {values}")
    yield "hostile"
    server.run("DROP DATABASE hostile WITH (FORCE)")


@pytest.fixture(scope="module")
def pooler() -> Iterator[PgBouncer]:
    with PgBouncer(shared_server(), size=10) as one:
        yield one


def test_every_variable_of_a_session_stands_in_the_table_once(server):
    """A variable that a newer server adds has to be examined and entered in the table."""
    names = [name for (name,) in server.run(f"SELECT name FROM pg_settings WHERE {SETTABLE}")]

    assert unclear(names, [*PINNED, *PINNED_FOR_SESSIONS], LEFT) == {}


def settings(ask: Callable[[str], Any], names: list[str]) -> dict[str, str]:
    listed = ", ".join(f"'{one}'" for one in names)
    text = f"SELECT name, setting FROM pg_catalog.pg_settings WHERE name IN ({listed})"
    return dict(ask(text))


def test_every_variable_that_is_pinned_is_hostile_here(server, hostile):
    """Otherwise the tests below would prove nothing about the pinned variable."""
    pinned = {one.name: one.value for one in (*PINNED, *PINNED_FOR_SESSIONS)}
    assert not pinned.keys() - HOSTILE.keys()

    found = settings(lambda text: server.run(text, database=hostile), list(pinned))

    assert not {name for name, value in found.items() if value == pinned[name]}


@pytest.mark.parametrize("way", ["own", "pooled"])
def test_our_requests_pin_each(wire_to, server, pooler, hostile, way):
    """Our own session keeps the pinned values; through a pooler, each transaction sets them."""
    transport = wire_to((server if way == "own" else pooler).url(hostile))
    for_sessions = PINNED_FOR_SESSIONS if way == "own" else ()
    pinned = {one.name: one.value for one in (*PINNED, *for_sessions)}

    def steps():
        [rows] = yield [Query("SELECT name, setting FROM pg_settings")]
        return dict(rows)

    alone = dict(transport.ask("SELECT name, setting FROM pg_settings"))
    looked, transacted = transport.look(steps), transport.transact(steps)

    for found in (alone, looked, transacted):
        wrong = {one: found[one] for one in pinned.keys() & found if found[one] != pinned[one]}
        assert wrong == {}
        assert found["transaction_isolation"] == "read committed"


def test_the_sessions_of_a_pooler_keep_nothing_of_ours(wire_to, server, pooler, hostile):
    transport = wire_to(pooler.url(hostile))
    pinned = [one.name for one in PINNED]
    before = settings(lambda text: server.run(text, database=hostile), pinned)

    transport.ask("SELECT 1")

    with psycopg.connect(pooler.url(hostile), autocommit=True, prepare_threshold=None) as other:
        assert settings(lambda text: other.execute(text).fetchall(), pinned) == before


class TestHostileDefaults(HostileDefaultsLaws):
    @pytest.fixture(params=["own", "lent", "pooled"])
    def opened(self, request, flavour, server, pooler, hostile) -> Callable[[], Any]:
        if request.param == "lent":
            url = server.url(hostile)
            return lambda: flavour.adopted(lent_pool(flavour, url).client, **PATIENT)
        url = (server if request.param == "own" else pooler).url(hostile)
        return lambda: flavour.locks(url, **PATIENT)


def test_transactions_write_only_where_the_default_lets_them(wire_to, server):
    """An operator closes a server to writes this way, perhaps because another server takes over."""
    transport = wire_to(server.url(), options="-c default_transaction_read_only=on")

    def steps():
        [rows] = yield [Query("SHOW transaction_read_only")]
        return rows

    assert transport.transact(steps) == [("on",)]


def test_a_pooler_in_statement_mode_is_refused_as_a_configuration(flavour, name):
    with PgBouncer(shared_server(), mode="statement", size=3) as pooler:
        locks = flavour.locks(pooler.url(), **PATIENT)

        with pytest.raises(ConfigurationError, match="pooler in statement mode"):
            locks.lock(name).acquire(timeout=20)
