"""The mutants of the SQL stores: row locks, owners, expiry, and rows that were counted."""

from __future__ import annotations

from mutant_copies import Mutant

SQLITE = tuple(f"backends/sqlite/test_contract.py::Test{one}" for one in ("Async", "Sync"))
"""The laws of the contract, in each flavour."""

MYSQL = "backends/mysql/test_statements.py"
PG = "backends/postgresql/test_statements.py"

MUTANTS = (
    Mutant(
        "sqlite-grants-a-held-name",
        "backends/sqlite/dialect.py",
        "WHERE places.id = '' AND places.last_token",
        "WHERE places.last_token",
        "The statement for an empty door also takes a name that is held.",
        (
            "backends/sqlite/test_uncontended.py::test_an_explicit_owner_stands_in_the_record_as_such",
        ),
        store="sqlite",
    ),
    Mutant(
        "sqlite-releases-for-anybody",
        "backends/sqlite/dialect.py",
        "WHERE key = ? AND arrived = 0 AND id = ? AND standing = 0",
        "WHERE key = ? AND arrived = 0 AND id IN (?, id) AND standing = 0",
        "A late holder's release ends the hold of its successor.",
        tuple(f"{one}::test_law_04_a_stranger_cannot_release_or_renew" for one in SQLITE),
        store="sqlite",
    ),
    Mutant(
        "sqlite-token-not-above-the-last",
        "backends/sqlite/dialect.py",
        "places.id = '' AND places.last_token < excluded.token AND NOT",
        "places.id = '' AND NOT",
        "A token repeats or goes back when the clock does.",
        (
            "backends/sqlite/test_uncontended.py::test_a_clock_that_is_behind_the_last_token_still_gives_a_larger_one",
        ),
        why_unseen="SQLite goes by a clock that cannot be set, so it never goes back",
    ),
    Mutant(
        "postgresql-row-not-locked",
        "backends/postgresql/dialect.py",
        "WITH d AS MATERIALIZED (SELECT * FROM {{door}} WHERE key = $1 FOR UPDATE)",
        "WITH d AS MATERIALIZED (SELECT * FROM {{door}} WHERE key = $1)",
        "Two claims read the same empty door, and both are let in.",
        (
            "backends/postgresql/test_doors.py::test_the_time_and_the_rows_are_those_after_the_wait_for_the_lock",
        ),
        store="postgresql",
    ),
    Mutant(
        "postgresql-grants-a-held-name",
        "backends/postgresql/statements.py",
        "WHERE d.key = $1 AND d.id = '' AND d.crowd = 0",
        "WHERE d.key = $1 AND d.crowd = 0",
        "The statement for an empty door also takes a name that is held.",
        (f"{PG}::test_a_name_is_taken_given_back_and_taken_with_a_larger_token",),
        store="postgresql",
    ),
    Mutant(
        "postgresql-releases-for-anybody",
        "backends/postgresql/statements.py",
        "WHERE key = $1 AND id = $2 AND crowd = 0",
        "WHERE key = $1 AND $2::text IS NOT NULL AND crowd = 0",
        "A late holder's release ends the hold of its successor.",
        (f"{PG}::test_a_name_is_taken_given_back_and_taken_with_a_larger_token",),
        store="postgresql",
    ),
    Mutant(
        "postgresql-confirms-too-late",
        "backends/postgresql/statements.py",
        "AND p.standing = 1 AND p.until > {NOW}\nRETURNING p.token",
        "AND p.standing = 1\nRETURNING p.token",
        "A waiter confirms its admission after the window, when the next one may be let in.",
        (f"{PG}::test_an_admission_is_not_confirmed_after_its_window",),
        why_unseen="the door ends the window in the same step in which it lets the next claim in",
    ),
    Mutant(
        "postgresql-renews-together-what-is-over",
        "backends/postgresql/statements.py",
        "ELSE d.id = j.id AND d.standing <= 1 AND d.until > {NOW} END",
        "ELSE d.id = j.id AND d.standing <= 1 END",
        "A batch of renewals extends a hold whose time is over.",
        (f"{PG}::test_each_does_only_what_it_would_do_alone",),
        why_unseen="a hold that is revived had no successor; see renewal-resurrects",
    ),
    Mutant(
        "mysql-row-not-locked",
        "backends/mysql/dialect.py",
        "FROM {{door}} WHERE `key` = %s FOR UPDATE",
        "FROM {{door}} WHERE `key` = %s",
        "Two claims read the same empty door, and both are let in.",
        ("backends/mysql/test_store.py::test_the_time_is_read_after_the_lock_was_waited_for",),
        store="mysql",
    ),
    Mutant(
        "mysql-counts-the-rows-it-found",
        "backends/mysql/statements.py",
        "return int(token) if changed and token else None",
        "return int(token) if changed else None",
        "A connection that counts rows as found grants a name that is held.",
        (
            "backends/mysql/lent/test_lending.py::test_a_connection_that_counts_the_rows_it_found_takes_nobodys_lock",
        ),
        why_unseen="the challenge opens its own connections, which count the rows that changed",
    ),
    Mutant(
        "mysql-confirms-too-late",
        "backends/mysql/statements.py",
        "AND p.standing = 1 AND p.until > {NOW}",
        "AND p.standing = 1",
        "A waiter confirms its admission after the window, when the next one may be let in.",
        (f"{MYSQL}::test_an_admission_is_not_confirmed_after_its_window",),
        why_unseen="the door ends the window in the same step in which it lets the next claim in",
    ),
    Mutant(
        "mysql-releases-for-anybody",
        "backends/mysql/statements.py",
        "WHERE `key` = %s AND id = %s AND crowd = 0",
        "WHERE `key` = %s AND id IN (%s, id) AND crowd = 0",
        "A late holder's release ends the hold of its successor.",
        (f"{MYSQL}::test_only_who_holds_alone_is_released_so",),
        store="mysql",
    ),
    Mutant(
        "mysql-grants-a-held-name",
        "backends/mysql/statements.py",
        "_EMPTY = \"id = '' AND crowd = 0\"",
        '_EMPTY = "crowd = 0"',
        "The statement for an empty door also takes a name that is held.",
        (f"{MYSQL}::test_a_name_that_is_held_is_not_taken",),
        store="mysql",
    ),
)
