"""Keys that refuse a late token: on a single server, a master with Sentinels, and a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
import redis.asyncio.sentinel
import redis.sentinel
import valkey
from both_flavours import FLAVOURS
from own_loop import Loop
from servers.redis import shared_server
from servers.redis_cluster import shared_cluster
from servers.redis_sentinels import shared_sentinels

from lockfast import ConfigurationError, LeaseLost, StaleToken, TokenUnavailable
from lockfast.fencing import AsyncRedisGuard, RedisGuard
from lockfast_challenge.servers.redis_sentinel import SERVICE

PLACES = {"alone": shared_server, "sentinel": shared_sentinels, "cluster": shared_cluster}


class Place:
    """A client of one flavour on one kind of deployment, used through blocking calls."""

    def __init__(self, where: str, flavour: str) -> None:
        self._loop = Loop() if flavour == "async" else None
        self._sentinel = None
        PLACES[where]()  # in this thread: a server ends with the thread that started it
        self.client = self.call(self._made, where, redis if flavour == "sync" else redis.asyncio)
        self.tag = f"{{{os.urandom(4).hex()}}}"
        self.mark, self.key = f"mark:{self.tag}", f"words:{self.tag}"
        self.guard = self.guarding(self.mark)

    def guarding(self, mark: str) -> Any:
        return (RedisGuard if self._loop is None else AsyncRedisGuard)(self.client, mark)

    def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        if self._loop is None:
            return function(*arguments, **options)
        return self._loop.call(function, *arguments, **options)

    def command(self, token: Any, *words: Any) -> Any:
        return self.call(self.guard.command, presented(token), *words)

    def script(self, token: Any, text: str, **given: Any) -> Any:
        return self.call(self.guard.script, presented(token), text, **given)

    def seal(self, token: Any) -> None:
        self.call(self.guard.seal, presented(token))

    def get(self, key: str) -> Any:
        return self.call(self.client.get, key)

    def _made(self, where: str, library: Any) -> Any:
        if where == "alone":
            return library.Redis(port=shared_server().port)
        if where == "cluster":
            return library.RedisCluster(host="127.0.0.1", port=shared_cluster().masters()[0].port)
        known = [("127.0.0.1", one.port) for one in shared_sentinels().sentinels]
        self._sentinel = library.sentinel.Sentinel(known)
        return self._sentinel.master_for(SERVICE)

    def close(self) -> None:
        for one in (self.client, *(self._sentinel.sentinels if self._sentinel else ())):
            self.call(getattr(one, "aclose", None) or one.close)
        if self._loop is not None:
            self._loop.stop()


def presented(token: Any) -> Any:
    return ("door", token) if isinstance(token, int) else token


@pytest.fixture(params=FLAVOURS)
def flavour(request) -> str:
    return request.param


@pytest.fixture(params=PLACES)
def place(request, flavour) -> Iterator[Place]:
    one = Place(request.param, flavour)
    yield one
    one.close()


@pytest.fixture
def alone(flavour) -> Iterator[Place]:
    one = Place("alone", flavour)
    yield one
    one.close()


def test_a_smaller_token_is_refused_and_both_are_told(place):
    assert place.command(33, "SET", place.key, "first") == b"OK"
    assert place.command(34, "APPEND", place.key, ", second") == 13

    with pytest.raises(StaleToken, match="34 of a later holder, and refuses token 33") as refusal:
        place.command(33, "SET", place.key, "late")

    assert (refusal.value.token, refusal.value.seen, refusal.value.name) == (33, 34, "door")
    assert place.get(place.key) == b"first, second"
    assert place.get(place.mark) == b"34"


def test_a_script_is_run_with_keys_and_arguments_of_its_own(place):
    text = "redis.call('SET', KEYS[1], ARGV[1]) return {#KEYS, #ARGV, KEYS[1], false} -- mine"

    found = place.script(33, text, keys=[place.key], arguments=["words"])

    assert found == [1, 1, place.key.encode(), None]
    place.seal(34)
    with pytest.raises(StaleToken):
        place.script(33, text, keys=[place.key], arguments=["late"])
    assert place.get(place.key) == b"words"


def test_a_script_that_the_server_has_forgotten_is_sent_again(place):
    place.seal(33)
    place.call(place.client.script_flush)
    place.seal(34)

    assert place.get(place.mark) == b"34"


def test_tokens_are_compared_as_numbers_and_kept_exactly(alone):
    alone.seal(9)
    alone.seal(10)
    with pytest.raises(StaleToken):
        alone.seal(9)
    alone.seal(2**53 - 2)
    alone.seal(2**53 - 1)
    with pytest.raises(StaleToken) as refusal:
        alone.seal(2**53 - 2)

    assert refusal.value.seen == 2**53 - 1
    assert alone.get(alone.mark) == b"9007199254740991"


@pytest.mark.parametrize("token", [-1, 0, 2**53, 2**64])
def test_what_can_be_no_token_is_refused(alone, token):
    with pytest.raises(ConfigurationError, match="is accepted"):
        alone.seal(token)


def test_a_mark_that_somebody_else_wrote_is_refused_in_a_sentence(alone):
    for wrong in ("words", "-5", "1e99", ""):
        alone.call(alone.client.set, alone.mark, wrong)
        with pytest.raises(ConfigurationError, match="where the largest token belongs"):
            alone.seal(33)
    alone.call(alone.client.set, alone.mark, 2**63)
    with pytest.raises(StaleToken):
        alone.seal(33)


def test_a_command_that_fails_is_the_callers_error(alone):
    alone.command(33, "SET", alone.key, "words")

    with pytest.raises(redis.ResponseError):
        alone.command(33, "INCR", alone.key)
    with pytest.raises(redis.ResponseError):
        alone.script(33, "return redis.error_reply('MINE it is')")
    with pytest.raises(redis.ResponseError):
        alone.script(33, "this is no Lua")
    with pytest.raises(ConfigurationError, match="cannot begin with #!"):
        alone.script(33, "#!lua\nreturn 1")


def test_an_answer_of_nothing_is_none(alone):
    assert alone.script(33, "return nil") is None
    assert alone.script(33, "") is None
    assert alone.command(33, "GET", alone.key) is None


def test_keys_of_different_slots_are_refused_by_name_on_a_cluster(flavour):
    place = Place("cluster", flavour)
    place.guard = place.guarding("mark:elsewhere")

    with pytest.raises(ConfigurationError, match="in different slots of the cluster"):
        place.command(33, "SET", place.key, "words")
    with pytest.raises(ConfigurationError, match="in different slots of the cluster"):
        place.script(33, "return 1", keys=[place.key])

    place.close()


def test_clients_of_valkey_are_the_same():
    key = os.urandom(4).hex()
    with valkey.Valkey(port=shared_server().port) as client:
        guard = RedisGuard(client, f"mark:{key}")
        assert guard.command(("door", 34), "SET", key, "words") == b"OK"
        with pytest.raises(StaleToken):
            guard.command(("door", 33), "SET", key, "late")

    port = shared_cluster().masters()[0].port
    with valkey.ValkeyCluster(host="127.0.0.1", port=port) as cluster:
        RedisGuard(cluster, f"mark:{{{key}}}").command(("door", 34), "SET", f"{{{key}}}", "words")
        with pytest.raises(ConfigurationError, match="in different slots of the cluster"):
            RedisGuard(cluster, "elsewhere").command(("door", 34), "SET", key, "words")


def test_a_lease_is_looked_at_first(alone, locks):
    lease = locks.lock("door").acquire()
    alone.command(lease, "SET", alone.key, "words")
    assert int(alone.get(alone.mark)) == lease.token
    locks.break_("door")

    with pytest.raises(LeaseLost):
        alone.command(lease, "SET", alone.key, "late")
    with locks.rwlock("book").read() as reader, pytest.raises(TokenUnavailable):
        alone.seal(reader)


def test_what_is_no_client_of_this_flavour_is_refused(alone, flavour):
    kind = RedisGuard if flavour == "sync" else AsyncRedisGuard
    other = AsyncRedisGuard if flavour == "sync" else RedisGuard

    with pytest.raises(ConfigurationError, match="is of the other flavour"):
        other(alone.client, "mark")
    with pytest.raises(ConfigurationError, match="is no client of Redis"):
        kind(object(), "mark")
    with pytest.raises(ConfigurationError, match="give the client that it came from"):
        kind(alone.call(alone.client.pipeline), "mark")
    with pytest.raises(TypeError, match="mark is a key"):
        kind(alone.client, 7)
