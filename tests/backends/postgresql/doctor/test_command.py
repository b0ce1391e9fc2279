"""The doctor as users run it: through a client, and with the command."""

from __future__ import annotations

import os
import subprocess
import sys

from lockfast.backends.postgresql.schema import PostgresqlTables


def test_a_client_tells_it_and_makes_nothing(flavour, server) -> None:
    tables = PostgresqlTables(table=f"t{os.urandom(4).hex()}")

    found = flavour.locks(server.url(), table=tables.table).diagnose()

    [of_tables] = [one for one in found if one.subject == "tables"]
    assert of_tables.level == "note"
    assert not server.run("SELECT 1 FROM pg_tables WHERE tablename = %s", tables.names[0])


def test_the_command_prints_what_was_found(server, user) -> None:
    server.run(f"ALTER ROLE {user} SET default_transaction_read_only = on")

    done = subprocess.run(
        [sys.executable, "-m", "lockfast", "doctor", "--url", server.url(user=user)],
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
    )

    assert done.returncode == 1
    assert "default_transaction_read_only is on" in done.stdout
    assert "to fix it: ALTER ROLE" in done.stdout


def test_the_command_makes_nothing_either(server) -> None:
    tables = PostgresqlTables(table=f"t{os.urandom(4).hex()}")
    url = f"{server.url()}?table={tables.table}"

    command = [sys.executable, "-m", "lockfast", "doctor", "--url", url]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)

    assert "are not there yet" in " ".join(done.stdout.split())
    assert not server.run("SELECT 1 FROM pg_tables WHERE tablename = %s", tables.names[0])
