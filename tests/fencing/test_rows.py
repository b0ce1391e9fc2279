"""Rows that refuse a late token, with every library on three databases."""

from __future__ import annotations

import pytest
from callers import ALL, ONE_OF_EACH
from servers import memcached

from lockfast import ConfigurationError, LeaseLost, Locks, StaleToken, TokenUnavailable, fencing
from lockfast.fencing import fenced_update, fenced_upsert, seal

LARGEST = 2**53 - 1


@pytest.fixture(params=ALL)
def table(request, table_of):
    return table_of(request.param)


@pytest.fixture(params=ONE_OF_EACH)
def plain(request, table_of):
    """A table in each database, for tests that do not depend on the library."""
    return table_of(request.param)


def test_a_smaller_token_is_refused_and_both_are_told(table):
    table.update(33, "first")
    table.update(34, "second")

    with pytest.raises(StaleToken, match="34 of a later holder, and refuses token 33") as refusal:
        table.update(33, "late")

    assert (refusal.value.token, refusal.value.seen, refusal.value.name) == (33, 34, "door")
    assert table.rows() == [(1, "second", 34)]


def test_one_holder_writes_as_often_as_it_likes(table):
    for words in ("one", "two", "two"):  # MySQL counts no change for the last word
        table.update(33, words)
    table.seal(33)

    assert table.rows() == [(1, "two", 33)]


def test_a_sealed_row_refuses_an_earlier_holder(table):
    table.seal(34)

    with pytest.raises(StaleToken):
        table.update(33, "late")
    assert table.rows() == [(1, "empty", 34)]


def test_an_upsert_makes_the_row_and_then_refuses_in_the_same_way(table):
    table.upsert(33, "made", key=2)
    table.upsert(33, "made", key=2)
    table.upsert(34, "written", key=2)

    with pytest.raises(StaleToken) as refusal:
        table.upsert(33, "late", key=2)

    assert refusal.value.seen == 34
    assert table.rows()[1] == (2, "written", 34)


def test_a_key_that_is_not_there_is_told_in_a_sentence(table):
    with pytest.raises(ConfigurationError, match=r"at id=7 is not there; fenced_upsert makes it"):
        table.update(33, "nowhere", key=7)


def test_a_table_without_the_column_is_told_in_a_sentence(table):
    table.fence = "nothing"

    for write in (table.update, table.upsert):
        with pytest.raises(ConfigurationError, match="no such table, column or unique key"):
            write(33, "unfenced")
        table.caller.rollback()
    table.fence = "fence"


def test_it_is_part_of_the_callers_transaction(plain):
    plain.update(34, "undone")
    plain.caller.rollback()

    plain.update(33, "there")

    assert plain.rows() == [(1, "there", 33)]


@pytest.mark.parametrize("fence", ['the "mark" `of` it', "100%s", ":fence", "Zaun", "select"])
@pytest.mark.parametrize("kind", [*ONE_OF_EACH, "postgresql/connection", "mysql/session"])
def test_names_that_need_quoting_are_quoted(kind, fence, table_of):
    table = table_of(kind, fence=fence)
    table.upsert(33, "first")
    table.update(34, "second")

    for write in (table.update, table.upsert):
        with pytest.raises(StaleToken):
            write(33, "late")


def test_the_largest_token_is_kept_exactly(plain):
    plain.update(LARGEST - 1, "before")
    plain.update(LARGEST, "largest")

    with pytest.raises(StaleToken):
        plain.update(LARGEST - 1, "late")
    assert plain.rows() == [(1, "largest", LARGEST)]


@pytest.mark.parametrize("token", [-1, 0, 2**53, 2**63, 2**64])
def test_what_can_be_no_token_is_refused(token, table_of):
    table = table_of("sqlite3")

    with pytest.raises(ConfigurationError, match=r"1 to 9007199254740991 is accepted"):
        table.update(token, "never")


def test_a_mark_larger_than_any_token_refuses_all(plain):
    plain.caller.run(f"UPDATE {plain.name} SET fence = {2**63 - 1}")

    with pytest.raises(StaleToken) as refusal:
        plain.update(LARGEST, "late")
    assert refusal.value.seen == 2**63 - 1


def test_a_column_that_is_too_small_for_a_token_is_an_error_and_no_open_door(table_of):
    for kind in ("psycopg", "pymysql"):
        table = table_of(kind, column="INT")
        for write in (table.update, table.upsert):
            with pytest.raises(Exception, match=r"(?i)out of range"):
                write(LARGEST, "clamped")
            table.caller.rollback()


INEXACT = [
    *((kind, "REAL") for kind in ("psycopg", "psycopg/async", "postgresql/session")),
    ("psycopg", "NUMERIC(20, -3)"),
    *((kind, "FLOAT") for kind in ("pymysql", "asyncmy", "mysql/session")),
]


@pytest.mark.parametrize("token", [1_794_975_000_000_001, LARGEST])
@pytest.mark.parametrize("verb", ["update", "upsert", "seal", "upsert of a new row"])
@pytest.mark.parametrize(("kind", "column"), INEXACT)
def test_a_column_that_rounds_a_token_is_refused_with_a_type_to_use(
    kind, column, verb, token, table_of
):
    """With a 32-bit column, a token from two minutes ago would be accepted."""
    table = table_of(kind, column=column)
    writes = {
        "update": lambda: table.update(token, "words"),
        "upsert": lambda: table.upsert(token, "words"),
        "seal": lambda: table.seal(token),
        "upsert of a new row": lambda: table.upsert(token, "words", key=2),
    }

    with pytest.raises(ConfigurationError, match=r"its column 'fence'.*make it a BIGINT"):
        writes[verb]()


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("psycopg", "DOUBLE PRECISION"),
        ("psycopg", "NUMERIC(20, 0)"),
        ("pymysql", "DOUBLE"),
        ("pymysql", "DECIMAL(20, 0)"),
        ("sqlite3", "REAL"),
        ("sqlite3", "TEXT"),
    ],
)
def test_any_column_that_keeps_a_token_exactly_will_do(kind, column, table_of):
    table = table_of(kind, column=column)
    table.update(LARGEST - 1, "before")
    table.upsert(LARGEST, "largest")

    with pytest.raises(StaleToken):
        table.update(LARGEST - 1, "late")


def test_a_session_of_mysql_that_would_clamp_a_token_is_refused(table_of):
    table = table_of("pymysql", column="INT")
    table.caller.run("SET SESSION sql_mode = ''")

    with pytest.raises(ConfigurationError, match="not strict"):
        table.update(LARGEST, "clamped")
    with pytest.raises(ConfigurationError, match="not strict"):
        table.upsert(LARGEST, "clamped", key=2)
    assert table.rows() == [(1, "empty", None)]


def test_a_column_of_text_is_compared_as_a_number_on_sqlite(table_of):
    """If tokens were compared as text, 9 would pass after 10 where a store's tokens are small."""
    table = table_of("sqlite3", column="TEXT")
    table.update(10, "later")

    for write in (table.update, table.upsert):
        with pytest.raises(StaleToken):
            write(9, "late")


def test_mysql_sees_a_token_that_was_written_after_its_snapshot(table_of):
    """At its usual isolation level, a plain SELECT shows the data as of the transaction's start."""
    late, other = table_of("pymysql"), table_of("pymysql")
    theirs, other.name = other.name, late.name
    assert late.rows() == [(1, "empty", None)]  # this takes the snapshot
    other.update(34, "later")
    other.caller.commit()

    with pytest.raises(StaleToken):
        late.update(33, "late")
    other.name = theirs


def test_an_upsert_touches_no_row_that_only_shares_another_unique_value(plain):
    plain.upsert(33, "first", key=2, other="same")
    plain.caller.commit()

    with pytest.raises(Exception, match=r"(?i)unique|duplicate"):
        plain.upsert(34, "other", key=3, other="same")

    plain.caller.rollback()
    assert plain.rows() == [(1, "empty", None), (2, "first", 33)]


def test_a_key_that_names_several_rows_is_told(plain):
    plain.caller.run(f"INSERT INTO {plain.name} (id, words) VALUES (2, 'empty')")
    given = (plain.caller.connection, plain.name, {"words": "empty"}, ("door", 33))

    with pytest.raises(ConfigurationError, match="not one row but several"):
        fenced_update(*given, {})


def test_an_upsert_that_meets_another_row_is_refused_though_ours_has_our_token(plain):
    """MySQL uses the first unique value that is taken, whichever row has that value."""
    caller = plain.caller
    caller.run(f"UPDATE {plain.name} SET other = 'a' WHERE id = 1")
    caller.run(f"INSERT INTO {plain.name} (id, other) VALUES (2, 'b')")
    key = {"other": "a"}
    seal(caller.connection, plain.name, key, ("door", 33))
    caller.commit()

    with pytest.raises(Exception, match=r"(?i)unique|duplicate"):
        fenced_upsert(caller.connection, plain.name, key, ("door", 33), {"id": 2})


def test_the_key_of_an_upsert_has_to_be_unique(table_of):
    for kind in ("sqlite3", "psycopg"):
        table = table_of(kind)
        with pytest.raises(ConfigurationError, match="unique"):
            fenced_upsert(
                table.caller.connection, table.name, {"words": "a"}, ("door", 33), {"id": 3}
            )
        table.caller.rollback()


@pytest.mark.parametrize(
    ("key", "values", "error", "sentence"),
    [
        ({}, {}, ConfigurationError, "names no row"),
        ({"id": None}, {}, ConfigurationError, "names no row"),
        (1, {}, TypeError, "key is a dict"),
        ({"id": 1}, {"id": 2}, ConfigurationError, "neither the key nor"),
        ({"id": 1}, {"fence": 2}, ConfigurationError, "neither the key nor"),
        ({"id": 1}, {"FENCE": 2}, ConfigurationError, "neither the key nor"),
        ({"id": 1}, [("words", 1)], TypeError, "values is a dict"),
        ({"": 1}, {}, ConfigurationError, "cannot be the name"),
        ({7: 1}, {}, TypeError, "is a str, not int"),
    ],
)
def test_bad_input_is_refused_before_anything_is_sent(key, values, error, sentence, table_of):
    table = table_of("sqlite3")

    for write in (fenced_update, fenced_upsert):
        with pytest.raises(error, match=sentence):
            write(table.caller.connection, table.name, key, ("door", 33), values)


# What may be presented as a token.


def test_a_lease_its_sequencer_and_a_pair_are_all_accepted(locks, table_of):
    table = table_of("sqlite3")
    with locks.lock("door") as lease:
        for shown in (lease, lease.sequencer, (lease.name, lease.token)):
            table.update(shown, "written")
        assert table.rows() == [(1, "written", lease.token)]


def test_a_lease_that_is_known_to_be_over_is_not_even_sent(locks, table_of):
    table = table_of("sqlite3")
    lease = locks.lock("door").acquire()
    locks.break_("door")

    with pytest.raises(LeaseLost):
        table.update(lease, "late")
    assert table.rows() == [(1, "empty", None)]


def test_shared_leases_are_refused(locks, table_of):
    table = table_of("sqlite3")
    with locks.rwlock("book").read() as reader, locks.semaphore("pool", capacity=2) as permit:
        for lease in (reader, permit, reader.sequencer):
            for guard in (table.update, table.upsert):
                with pytest.raises(TokenUnavailable, match="is shared"):
                    guard(lease, "never")
            with pytest.raises(TokenUnavailable, match="is shared"):
                table.seal(lease)
    with locks.rwlock("book").write() as writer:
        table.update(writer, "written")


def test_a_lease_of_a_backend_without_tokens_is_refused(table_of):
    table = table_of("sqlite3")
    with (
        Locks(memcached.shared_server().url, request_timeout=30) as locks,
        locks.lock("door") as lease,
        pytest.raises(TokenUnavailable, match="no fencing tokens"),
    ):
        table.update(lease, "never")


def test_what_is_nothing_of_a_lease_is_refused(locks, table_of):
    table = table_of("sqlite3")
    for wrong, error in (
        ("a word", ConfigurationError),
        (None, TypeError),
        (b"text", TypeError),
        (("door",), TypeError),
        (("door", "33"), TypeError),
        (("door", True), TypeError),
        (("door", None), TypeError),
        (("", 33), ConfigurationError),
        (locks.lock("door"), TypeError),
    ):
        with pytest.raises(error):
            seal(table.caller.connection, table.name, {"id": 1}, wrong)


def test_a_token_of_another_name_is_refused_and_of_another_store_by_the_store(locks):
    with locks.lock("door") as lease, Locks("memory://other").lock("door") as elsewhere:
        assert fencing.passed_on(lease.sequencer, name="door").token == lease.token
        assert fencing.passed_on(("door", 33), name="door").token == 33
        for passed in (lease.sequencer, ("door", 33)):
            with pytest.raises(ConfigurationError, match="protected by 'gate'"):
                fencing.passed_on(passed, name="gate")

        assert locks.is_current(lease.sequencer)
        assert not locks.is_current(elsewhere.sequencer)
