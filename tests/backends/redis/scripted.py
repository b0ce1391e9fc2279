"""The scripts on a real server, with a clock that the test sets."""

from __future__ import annotations

import hashlib
import re

from servers.redis import shared_server

from lockfast.backends.redis import replies, requests
from lockfast.backends.redis.address import address_of_url
from lockfast.backends.redis.connection_threads import RedisTransport
from lockfast.backends.redis.resp import ErrorReply, packed
from lockfast.backends.redis.scripts import redis_script
from lockfast.model import Claim, Grant, Held, Renewal
from lockfast.runtime.clock import Clock

NAME = "door{1}"
START = 4_000_000_000
"""A time ahead of the server's own clock, which still decides when a key expires."""


class Scripted:
    """The scripts on a real server, with a clock that the test sets."""

    def __init__(self) -> None:
        server = shared_server()
        address = address_of_url(server.url, where=server.url, options={})
        self.transport = RedisTransport(address.server, clock=Clock())
        self.transport.ask(packed(b"FLUSHALL"), deadline=Clock().now() + 5)
        self.keys = requests.RedisKeys("test")
        self.now = float(START)
        self.patience = 10**15
        self._shas: dict[str, bytes] = {}

    def close(self) -> None:
        self.transport.close()

    def ask(self, *arguments: object):
        words = [one if isinstance(one, bytes) else str(one).encode() for one in arguments]
        return self.transport.ask(packed(*words), deadline=Clock().now() + 5)

    def run(self, verb: str, request: bytes):
        [reply] = self.run_all(verb, [request])
        return reply

    def run_all(self, verb: str, asked: list[bytes]) -> list:
        if verb not in self._shas:
            self.prepare(verb)
        us = round(self.now * 1_000_000)
        self.ask("HSET", "now", "s", us // 1_000_000, "us", us % 1_000_000)
        sha = redis_script(verb).sha
        mine = [one.replace(sha, self._shas[verb]) for one in asked]
        replies = self.transport.send_all(mine, deadline=Clock().now() + 5)
        refused = [one.text for one in replies if isinstance(one, ErrorReply)]
        assert not refused, refused
        return replies

    def prepare(self, *names: str) -> None:
        for verb in names:
            # Count no client as silent: silence is not part of the door's rules, and is tested
            # separately.
            patient = b"PATIENCE, OVERDUE = %d, %d" % (self.patience, self.patience - 4_500_000)
            self.patch(verb, b"PATIENCE, OVERDUE = 7000000, 2500000", patient)

    def patch(self, verb: str, what: bytes, by: bytes) -> None:
        source = redis_script(verb).source.replace(what, by)
        source = source.replace(b"redis.call('TIME')", b"redis.call('HMGET', 'now', 's', 'us')")
        self._shas[verb] = hashlib.sha1(source).hexdigest().encode()  # noqa: S324
        self.ask(b"SCRIPT", b"LOAD", source)

    # -- the verbs, answering as a door does ----------------------------------------------

    def arrive(self, claim: Claim) -> Grant | Held | str:
        request = requests.acquire(self.keys.of(claim.name), claim, "inbox" if claim.queues else "")
        reply = self.run("acquire", request)
        if isinstance(reply, int):
            return Grant(claim, reply, claim.ttl)
        if reply[0] == 0:
            return f"capacity {reply[1]}"
        in_line = replies.in_line(reply)
        return Held(in_line.holders, in_line.number, in_line.ends_in)

    def renew(self, claim: Claim) -> Renewal:
        return requests.RENEWAL_REPLIES[
            self.run("renew", requests.renew(self.keys.of(claim.name), claim))
        ]

    def release(self, claim: Claim, *, tombstone: bool) -> bool:
        request = requests.release(self.keys.of(claim.name), claim, tombstone=tombstone)
        return bool(self.run("release", request))

    def withdraw(self, claim: Claim, *, tombstone: bool) -> None:
        request = requests.withdraw(self.keys.of(claim.name), claim, tombstone=tombstone)
        self.run("withdraw", request)

    def break_(self) -> list[int]:
        reply = self.run("break", requests.break_(self.keys.of(NAME), 0, token=None, owner=None))
        assert reply[1] == -1
        return sorted(one.token or 0 for one in replies.holders(reply[2:], reply[0]))

    def beat(self, client: str) -> replies.HeartbeatReply:
        request = requests.heartbeat([(self.keys.of(NAME), client)], "inbox")
        [beat] = replies.heartbeat_replies(self.run("beat", request), number=1)
        return beat

    def inspect(self) -> None:
        self.run("inspect", requests.inspect(self.keys.of(NAME), requests.Cursor()))

    def scripts_run(self) -> int:
        """Return how many script calls the server has run."""
        found = re.search(rb"cmdstat_evalsha:calls=(\d+)", self.ask("INFO", "commandstats"))
        return int(found[1]) if found else 0

    def worked(self) -> float:
        """Return the CPU seconds of the server's main thread; waiting is not counted."""
        text = self.ask("INFO", "cpu")
        return sum(map(float, re.findall(rb"used_cpu_\w+_main_thread:([\d.]+)", text)))

    # -- the stored records -----------------------------------------------------------------

    def records(self) -> dict[bytes, bytes]:
        fields = self.ask("HGETALL", self.keys.door(NAME))
        return fields if isinstance(fields, dict) else {}

    def key(self, what: str) -> bytes:
        return self.keys.door(NAME)[: -len("door")] + what.encode()


def claim(number: int, **options: object) -> Claim:
    fields = {
        "name": NAME,
        "client": "client",
        "owner": '{"host": "h", "pid": 1}',
        "weight": 1,
        "capacity": 1,
        "ttl": 10.0,
    }
    return Claim(id=f"{number:032x}", **{**fields, **options})
