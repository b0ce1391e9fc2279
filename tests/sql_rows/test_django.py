"""Django calls hooks after a commit, but not before it, and drops them on a rollback."""

from __future__ import annotations

import django
import pytest
from django.conf import settings
from sellers import in_a_file
from servers import postgresql

from lockfast import ConfigurationError, Locks
from lockfast.sql_rows import hold_until_commit
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.proxy import Proxy


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("django") / "shop.db"


@pytest.fixture(scope="module")
def transaction(file):
    """Django with two connections to one file, as of two processes, and one to a server."""
    one = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(file), "OPTIONS": {"timeout": 60}}
    distant = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "postgres",
        "USER": "postgres",
        "HOST": "127.0.0.1",
    }
    databases = {"default": one, "other": dict(one), "distant": distant}
    settings.configure(DATABASES=databases, SECRET_KEY="a test's")
    django.setup()
    from django.db import connections, transaction  # noqa: PLC0415 - not before django.setup()

    yield transaction
    connections.close_all()


@pytest.fixture
def shop(file, transaction):
    """Create a stock of ten; return a function that reads what is left."""
    file.unlink(missing_ok=True)
    in_a_file(file).close()
    from django.db import connections  # noqa: PLC0415 - as above

    for one in connections.all():
        one.close()
    return lambda using="default": _read(connections[using])


def _read(connection) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT left_over FROM stock")
        return int(cursor.fetchone()[0])


def _write(left: int, using: str = "default") -> None:
    from django.db import connections  # noqa: PLC0415 - as above

    with connections[using].cursor() as cursor:
        cursor.execute("UPDATE stock SET left_over = %s", [left])


@pytest.fixture
def clients(tmp_path):
    url = f"sqlite://{tmp_path}/locks.db"
    with Locks(url, request_timeout=30) as a, Locks(url, request_timeout=30) as b:
        yield a, b


@pytest.mark.parametrize("tied", [False, True])
def test_two_of_ten_are_sold_only_if_the_lock_outlives_the_commit(tied, shop, transaction, clients):
    ours, theirs = clients
    with transaction.atomic():
        with ours.lock("stock") as lease:
            if tied:
                hold_until_commit(lease, transaction)
            _write(shop() - 1)
        early = theirs.lock("stock").try_acquire()
        seen = shop("other") if early else None
    after = early or theirs.lock("stock").acquire(timeout=60)
    with transaction.atomic(using="other"):
        _write((shop("other") if seen is None else seen) - 1, using="other")
    after.release()

    assert shop() == (8 if tied else 9)


def test_a_rollback_frees_the_name(shop, transaction, clients):
    ours, theirs = clients

    def fail():
        with transaction.atomic():
            hold_until_commit(ours.lock("stock").acquire(), transaction)
            _write(0)
            assert theirs.lock("stock").try_acquire() is None
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert theirs.lock("stock").acquire(timeout=60) is not None
    assert shop() == 10


def test_a_commit_without_an_answer_releases_nothing(shop, transaction, clients, caplog):
    """Django drops the hooks as after a rollback, but an unanswered commit may have happened."""
    from django.db import OperationalError, connections  # noqa: PLC0415 - as above

    ours, theirs = clients

    def commit():
        with transaction.atomic(using="distant"):
            hold_until_commit(ours.lock("stock", ttl=600).acquire(), connections["distant"])
            with connections["distant"].cursor() as cursor:
                cursor.execute("SELECT 1")

    with Proxy(postgresql.shared_server().port) as proxy:
        connections["distant"].settings_dict["PORT"] = proxy.port
        proxy.reset_on(b"COMMIT")
        with pytest.raises(OperationalError):
            commit()
    eventually(lambda: "was sent and not answered" in caplog.text, what="the log tells of it")

    assert theirs.lock("stock").try_acquire() is None


def test_a_connection_will_do_as_well(shop, transaction, clients):
    ours, theirs = clients
    with transaction.atomic(using="other"):
        lease = ours.lock("stock").acquire()
        hold_until_commit(lease, transaction.get_connection("other"))
        assert theirs.lock("stock").try_acquire() is None

    assert theirs.lock("stock").try_acquire() is not None


def test_outside_of_a_transaction_it_is_refused(shop, transaction, clients):
    lease = clients[0].lock("stock").acquire()

    with pytest.raises(ConfigurationError, match=r"enter transaction\.atomic"):
        hold_until_commit(lease, transaction)

    assert lease.is_trusted
