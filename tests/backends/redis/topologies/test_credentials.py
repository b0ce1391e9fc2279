"""Who a connection is: credentials that are rotated, its name, and its database."""

from __future__ import annotations

import threading

import pytest
import redis
from both_flavours import number_waiting
from refusals import PASSWORD, Refusals
from servers.redis import shared_server

from lockfast import BackendUnavailable, ConfigurationError, Locks
from lockfast.backends.redis import acl, errors
from lockfast.backends.redis.resp import ErrorReply
from lockfast.events import Renewed

USER = "rotated"


class Provider:
    """The part of redis-py's protocol that Lockfast uses, without redis-py."""

    def __init__(self) -> None:
        self.password = "first"
        self.asked = 0

    def get_credentials(self) -> tuple[str, str]:
        self.asked += 1
        return USER, self.password


class ProviderOfBothFlavours(Provider):
    """A provider that is awaited in asyncio, as token services are."""

    def __init__(self) -> None:
        super().__init__()
        self.awaited = 0

    async def get_credentials_async(self) -> tuple[str, str]:
        self.awaited += 1
        return USER, self.password


@pytest.fixture
def server():
    return shared_server()


@pytest.fixture
def admin(server):
    with server.client(decode_responses=True) as client:
        yield client
        client.execute_command("ACL", "DELUSER", USER)


@pytest.fixture
def let_in(admin):
    """Return a function that gives the user one password, with the smallest rights and others."""

    def let_in(password: str, *rules: str, namespace: str = "lockfast") -> None:
        smallest = acl.smallest(namespace).split()
        admin.execute_command("ACL", "SETUSER", USER, "reset", "on", f">{password}", *smallest)
        if rules:
            admin.execute_command("ACL", "SETUSER", USER, *rules)

    return let_in


def end_connections(admin: redis.Redis) -> None:
    """End all connections of the user, as a server does when a token expires."""
    assert admin.client_kill_filter(user=USER) > 0


# -- providers -------------------------------------------------------------------------


@pytest.fixture(params=[Provider, ProviderOfBothFlavours])
def provider(request) -> Provider:
    return request.param()


def test_a_provider_is_asked_on_every_connect(flavour, admin, let_in, namespace, provider):
    """After a rotation, the next connection logs in with the new password."""
    url = shared_server().url
    let_in(provider.password, namespace=namespace)
    locks = flavour.locks(url, namespace=namespace, credential_provider=provider)
    locks.lock("door").acquire(timeout=20).release()
    before = provider.asked

    provider.password = "second"
    let_in(provider.password, namespace=namespace)
    end_connections(admin)
    locks.lock("door").acquire(timeout=20).release()

    if flavour.name == "async" and isinstance(provider, ProviderOfBothFlavours):
        assert provider.asked == 0
        assert provider.awaited > 1
    else:
        assert provider.asked > before > 0


def test_a_held_lease_outlives_a_rotation(flavour, server, admin, let_in, namespace):
    """Its watchdog connects again, with the credentials of that time."""
    provider, renewed = Provider(), threading.Event()
    let_in(provider.password, namespace=namespace)
    locks = flavour.locks(
        server.url,
        namespace=namespace,
        credential_provider=provider,
        on_event=lambda event: renewed.set() if isinstance(event, Renewed) else None,
    )
    lease = locks.lock("door", ttl=3).acquire(timeout=20)

    provider.password = "second"
    let_in(provider.password, namespace=namespace)
    end_connections(admin)
    renewed.clear()

    assert renewed.wait(20)
    lease.release()


class Broken:
    """A provider whose service is down, or that returns something else than a login."""

    def __init__(self, outcome: object) -> None:
        self._outcome = outcome

    def get_credentials(self) -> object:
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome


@pytest.mark.parametrize(
    "outcome",
    [
        OSError("no route to the token service"),
        RuntimeError("no token"),
        None,
        PASSWORD,
        (),
        (USER, PASSWORD, "and more"),
        (USER, None),
        {USER: PASSWORD},
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_provider_that_fails_is_an_outage_of_its_own(flavour, server, caplog, outcome):
    """The error names the provider, and shows nothing of what it returned."""
    error = Refusals([flavour], caplog, within=5.0)(server.url, credential_provider=Broken(outcome))

    assert isinstance(error, BackendUnavailable)
    assert "the credential_provider failed" in str(error)


def test_a_login_of_a_provider_that_is_rejected_is_an_outage(flavour, server, let_in, caplog):
    """During a rotation it passes; the error says whose login it was."""
    let_in("another-one")
    provider = Provider()
    provider.password = PASSWORD

    error = Refusals([flavour], caplog, within=5.0)(server.url, credential_provider=provider)

    assert isinstance(error, BackendUnavailable)
    assert "rejected the user name or password that the credential_provider returned" in str(error)


@pytest.mark.parametrize(
    "reply",
    [
        "NOAUTH Authentication required.",
        "WRONGPASS invalid username-password pair or user is disabled.",
        "ERR invalid password",
    ],
)
@pytest.mark.parametrize("refused", [errors.refused, errors.of_sentinel])
def test_every_rejection_of_a_login_of_a_provider_is_an_outage(refused, reply):
    """Sentinels have logins too, and servers before Redis 6 send no code."""
    error = refused(ErrorReply(reply), where="redis://there", has_provider=True)

    assert isinstance(error, BackendUnavailable)
    assert "credential_provider" in str(error)


def test_a_waiting_claim_outlasts_a_rotation_that_the_provider_learns_of_late(
    flavour, admin, let_in, namespace, eventually
):
    """Until then the server rejects the old password, and the claim keeps its place."""
    url, provider = shared_server().url, Provider()
    let_in(provider.password, namespace=namespace)
    lease = flavour.locks(url, namespace=namespace).lock("door").acquire(timeout=20)
    locks = flavour.locks(url, namespace=namespace, credential_provider=provider)
    waiting = flavour.start(locks.lock("door").acquire, timeout=150)
    eventually(lambda: number_waiting(locks) == 1)

    let_in("second", namespace=namespace)
    end_connections(admin)
    before = provider.asked
    eventually(lambda: provider.asked > before + 2)
    provider.password = "second"
    lease.release()

    assert waiting.result(120).token > lease.token


@pytest.mark.parametrize(
    "other", [{"password": PASSWORD}, {"username": USER}, {"username": USER, "password": PASSWORD}]
)
def test_a_provider_beside_a_fixed_login_is_refused(server, other):
    with pytest.raises(ConfigurationError, match="credential_provider") as told:
        Locks(server.url, credential_provider=Provider(), **other)

    assert PASSWORD not in str(told.value)


def test_a_provider_without_the_method_is_refused(server):
    with pytest.raises(ConfigurationError, match=r"get_credentials\(\).*, not str"):
        Locks(server.url, credential_provider="token")


# -- name and database -----------------------------------------------------------------


def test_connections_have_the_name_and_the_database_of_their_url(
    flavour, server, admin, namespace, eventually
):
    """An operator sees in CLIENT LIST whose connections they are; so too those that listen."""
    url = f"{server.url}/5?client_name={namespace}"
    locks, other = (flavour.locks(url, namespace=namespace) for _ in range(2))
    lease = locks.lock("door", ttl=60).acquire(timeout=20)
    waiter = flavour.start(other.lock("door").acquire, timeout=45)

    def named() -> list[dict[str, str]]:
        return [one for one in admin.client_list() if one["name"] == namespace]

    eventually(lambda: any(int(one["sub"]) for one in named()))
    assert {one["db"] for one in named()} == {"5"}
    assert namespace not in {one["name"] for one in admin.client_list() if one["db"] != "5"}
    lease.release()
    waiter.result(45).release()


def test_connections_of_the_same_login_may_have_different_names(
    flavour, server, admin, let_in, namespace
):
    """The smallest rights are enough for a name, which is a part of the handshake."""
    let_in("first", namespace=namespace)
    names = f"{namespace}-a", f"{namespace}-b"
    for name in names:
        url = f"redis://{USER}:first@{server.address}"
        locks = flavour.locks(url, namespace=namespace, client_name=name)
        locks.lock("door").acquire(timeout=20).release()

    assert set(names) <= {one["name"] for one in admin.client_list()}


def test_another_database_needs_one_more_right(flavour, server, let_in, namespace, caplog):
    """SELECT is not among the smallest rights, because most users need no other database."""
    let_in(PASSWORD, namespace=namespace)
    url = f"redis://{USER}:{PASSWORD}@{server.address}/5"

    error = Refusals([flavour], caplog, within=5.0)(url, namespace=namespace)
    assert isinstance(error, ConfigurationError)
    assert "may not run SELECT: it needs +select" in str(error)

    let_in(PASSWORD, "+select", namespace=namespace)
    flavour.locks(url, namespace=namespace).lock("door").acquire(timeout=20).release()


@pytest.mark.parametrize("name", ["two words", "line\nbreak", "straße"])
def test_a_name_that_redis_would_refuse_is_refused_here(server, name):
    with pytest.raises(ConfigurationError, match="client_name"):
        Locks(server.url, client_name=name)
