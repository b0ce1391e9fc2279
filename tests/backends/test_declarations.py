"""Every store has a descriptor, which declares its URL schemes and the clients that it adopts."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from lockfast import AsyncLocks, ConfigurationError, Locks, urls

ROOT = Path(__file__).parents[2]
BACKENDS = ROOT / "src" / "lockfast" / "backends"
EXAMPLES = [
    pytest.param(scheme, example, id=scheme)
    for room in urls.STORES
    for scheme, example in urls.declared(room).schemes.items()
]


def run(program: str) -> str:
    command = [sys.executable, "-c", textwrap.dedent(program)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_every_room_with_a_backend_is_in_the_table_and_nothing_else():
    """A store that is missing from `urls.STORES` cannot be opened."""
    rooms = {path.parent.name for path in BACKENDS.glob("*/descriptor.py")}

    assert set(urls.STORES) == rooms
    assert max(Counter(urls.STORES).values()) == 1


def test_no_two_stores_share_a_scheme():
    """If two stores shared a scheme, its URLs could only ever open the first store."""
    assert max(Counter(urls.schemes()).values()) == 1


@pytest.mark.parametrize(("scheme", "example"), EXAMPLES)
def test_the_example_of_a_scheme_can_be_opened(scheme, example):
    """The error for a refused URL shows the example, so users will copy it."""
    assert example.startswith(f"{scheme}:")
    with Locks(example) as locks:
        assert type(locks._client.backend) is urls.backend_class(scheme, flavour="_sync")
    locks = AsyncLocks(example)
    assert type(locks._client.backend) is urls.backend_class(scheme, flavour="_async")


@pytest.mark.parametrize("room", urls.STORES)
def test_a_class_that_is_declared_stands_in_its_room(room):
    scheme = next(iter(urls.declared(room).schemes))
    found = urls.backend_class(scheme, flavour="_async")

    assert found.__module__ == f"lockfast.backends.{room}._async.backend"
    assert found.__name__ == f"Async{urls.declared(room).backend}"


@pytest.mark.parametrize("room", urls.STORES)
def test_an_extra_that_is_declared_can_be_installed(room):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extra = urls.declared(room).extra

    assert extra is None or extra in project["optional-dependencies"]


@pytest.mark.parametrize("room", urls.STORES)
def test_whoever_declares_clients_can_adopt_one(room):
    scheme = next(iter(urls.declared(room).schemes))
    backend = urls.backend_class(scheme, flavour="_sync")

    assert hasattr(backend, "from_client") == bool(urls.declared(room).clients)
    takes_factory = urls.declared(room).factory_options is not None
    assert hasattr(backend, "from_factory") == takes_factory


def test_no_declaration_imports_a_driver():
    """Refusing a URL reads all descriptors, and the program may have no driver installed."""
    loaded = run("""
        import sys
        before = set(sys.modules)
        from lockfast import urls
        assert urls.schemes()
        print(*sorted(set(sys.modules) - before))
    """).split()

    assert {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names == {"lockfast"}
    assert "sqlite3" not in loaded
    backends = {name for name in loaded if name.endswith(".backend") and ".backends." in name}
    assert backends == {"lockfast.backends._sync.backend"}  # the port itself, not a store's backend


def test_a_store_is_opened_without_the_declarations_of_others():
    """Opening a store by its scheme loads no other store's descriptor."""
    told = run("""
        import sys
        import lockfast
        lockfast.Locks("memory://").close()
        names = (name for name in sys.modules if name.startswith("lockfast.backends."))
        print(*(name for name in names if name.endswith(".descriptor")))
    """)

    assert told.split() == ["lockfast.backends.memory.descriptor"]


@pytest.mark.parametrize(
    ("missing", "url", "way_out"),
    [
        ("kazoo", "zookeeper://host", 'pip install "lockfast[zookeeper]"'),
        ("psycopg", "postgres://host/shop", 'pip install "lockfast[postgresql]"'),
        ("pymysql", "mariadb://app@host/shop", 'pip install "lockfast[mysql]"'),
        ("_sqlite3", "sqlite:///x.db", "needs _sqlite3, which this Python was built without"),
    ],
)
def test_what_is_missing_is_told_with_what_installs_it(missing, url, way_out):
    """The error names the extra to install, or says that this Python lacks the module."""
    told = run(f"""
        import sys
        import lockfast
        sys.modules[{missing!r}] = None
        try:
            lockfast.Locks({url!r})
        except lockfast.ConfigurationError as error:
            print(error)
    """).strip()

    assert told.startswith(f"{url.partition('//')[0]}// needs ")
    assert missing in told
    assert told.endswith(way_out)


def test_a_driver_that_cannot_be_loaded_is_told_with_what_it_needs(monkeypatch):
    """A driver may be installed and still fail to load, for example psycopg without libpq."""
    monkeypatch.setenv("PSYCOPG_IMPL", "nothing that there is")

    told = run("""
        import lockfast
        try:
            lockfast.Locks("postgresql://host/shop")
        except lockfast.ConfigurationError as error:
            print(error)
    """).strip()

    assert told.startswith("postgresql:// has a driver that cannot be loaded (")
    assert told.endswith("or pip install 'psycopg[binary]', which brings one")
    assert "\n" not in told


@pytest.mark.parametrize(
    ("url", "accepted"),
    [
        ("postgresql+psycopg://host/shop", "postgresql://host:5432/database"),
        ("mysql+pymysql://app@host/shop", "mysql://user:password@host:3306/database"),
    ],
)
def test_a_url_of_sqlalchemy_is_told_how_ours_is_written(url, accepted):
    with pytest.raises(ConfigurationError, match="unknown scheme") as refused:
        Locks(url)

    assert accepted in str(refused.value)
    assert "zookeeper" not in str(refused.value)


def test_the_refusal_of_a_stranger_lists_the_clients_that_are_declared():
    with pytest.raises(ConfigurationError) as refused:
        Locks.from_client(object())

    assert str(refused.value) == (
        "no backend is known for builtins.object; accepted: connections of PyMySQL and asyncmy, "
        "engines of SQLAlchemy with mysql+pymysql:// or mysql+asyncmy://, connections and pools of "
        "psycopg 3, engines of SQLAlchemy with postgresql+psycopg://, clients of redis-py and "
        "valkey-py (Redis, RedisCluster, and what Sentinel.master_for returns), and KazooClient"
    )
    for room in urls.STORES:
        for clients in urls.declared(room).clients:
            assert clients.listed_as in str(refused.value)
