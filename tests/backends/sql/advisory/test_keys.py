"""What a name is to the server: the same in every version, another for every name."""

from __future__ import annotations

from holdfast.backends.mysql.advisory import MysqlStatements
from holdfast.backends.postgresql.advisory import PostgresqlStatements

NUMBER_OF_DOOR = 7358160261686687518
LOCK_OF_DOOR = "holdfast:82a2fd3eb7db66269b5e51e86159f7a27a9489dda152730b"

NAMES = ("door", "Door", "door ", "dóor", "a", "b", "x" * 512, "'; DROP TABLE door; --")


def test_a_number_of_64_bits_for_each_name_and_namespace():
    """Clients of different versions have to mean the same lock by the same name."""
    one, other = (PostgresqlStatements(namespace=name) for name in ("holdfast", "other"))

    assert one.key_of("door") == NUMBER_OF_DOOR
    keys = {of.key_of(name) for of in (one, other) for name in NAMES}
    assert len(keys) == 2 * len(NAMES)
    assert all(-(2**63) <= key < 2**63 for key in keys)


def test_the_two_halves_of_a_number_are_those_that_the_server_shows():
    statements = PostgresqlStatements(namespace="holdfast")

    assert statements.holders(-1).values == (2**32 - 1, 2**32 - 1)
    assert statements.holders(2**32 + 7).values == (1, 7)


def test_a_short_name_in_small_letters_for_each_name_namespace_and_database():
    """GET_LOCK takes 64 letters, some servers see no case, and all databases share the locks."""
    several = [
        MysqlStatements(database=database, namespace=namespace)
        for database in ("shop", "books")
        for namespace in ("holdfast", "other")
    ]

    assert several[0].key_of("door") == LOCK_OF_DOOR
    keys = {of.key_of(name) for of in several for name in NAMES}
    assert len(keys) == len(several) * len(NAMES)
    assert all(len(key) <= 64 and key == key.lower() for key in keys)
