"""Which server runs if MySQL or MariaDB is requested."""

from __future__ import annotations

from pathlib import Path

import pytest
from servers.mariadb import newer_server
from servers.mysql import shared_server

from lockfast_challenge.servers import mysql
from lockfast_challenge.servers.mysql import MysqlServer
from lockfast_challenge.servers.server import CannotStart


@pytest.fixture
def on_the_path(tmp_path, monkeypatch) -> Path:
    """Return an empty directory that is the whole PATH; nothing was downloaded either."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(mysql, "downloaded", lambda _: None)
    return tmp_path


def program(path: Path) -> Path:
    path.touch()
    path.chmod(0o755)
    return path


def test_a_mysqld_on_the_path_will_do(on_the_path):
    installed = program(on_the_path / "mysqld")

    assert MysqlServer.program()[0] == str(installed)


@pytest.mark.parametrize("is_mariadb", [True, False])
def test_mariadb_under_the_name_of_mysql_is_not_taken_for_it(on_the_path, is_mariadb):
    """Debian's MariaDB includes a link named `mysqld`."""
    if is_mariadb:
        program(on_the_path / "mariadbd")
        (on_the_path / "mysqld").symlink_to("mariadbd")

    with pytest.raises(CannotStart, match="install the package mysql-server-core"):
        MysqlServer.program()


def test_the_downloaded_one_is_mysql():
    [[version, comment]] = shared_server().run("SELECT VERSION(), @@version_comment")

    assert "mariadb" not in f"{version} {comment}".lower()
    assert int(version.split(".")[0]) >= 8


@pytest.mark.parametrize("name", ["mariadb/mariadb_{}.sql", "mysql/mysql_{}.sql"])
def test_the_system_tables_of_mariadb_are_found_where_either_release_has_them(tmp_path, name):
    files = [tmp_path / "share" / name.format(one) for one in mysql.SYSTEM_TABLES]
    files[0].parent.mkdir(parents=True)
    for one in files:
        one.touch()

    assert mysql.system_tables(tmp_path) == files


def test_without_them_it_says_where_it_has_looked(tmp_path):
    with pytest.raises(CannotStart, match=r"share/mariadb/.* or .*share/mysql/.* cannot be found"):
        mysql.system_tables(tmp_path)


def test_the_downloaded_mariadb_is_one_whose_files_have_moved():
    [[version]] = newer_server().run("SELECT VERSION()")

    assert "MariaDB" in version
    assert int(version.split(".")[0]) >= 11
