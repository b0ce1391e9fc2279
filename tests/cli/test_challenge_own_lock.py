"""`lockfast challenge --lock module:Class`: a lock of the user's own, on a real Redis."""

from __future__ import annotations

import json
import sys
from textwrap import dedent

import pytest
from servers.redis import shared_server

SHORT = ("--time", "1", "--clients", "2", "--names", "1", "--ttl", "0.5", "--seed", "7")

OWN_LOCKS = '''
    import time

    import redis


    class Holds:
        """Stops when its lease may be over, and deletes only its own."""

        def __init__(self, url, ttl):
            self.redis = redis.Redis.from_url(url)
            self.ttl = ttl

        def acquire(self, name, timeout):
            ends = time.monotonic() + timeout
            while time.monotonic() < ends:
                sent = time.monotonic()
                lock = self.redis.lock(name, timeout=self.ttl)
                if lock.acquire(blocking=False):
                    return Held(lock, sent + 0.9 * self.ttl)
                time.sleep(0.01)

        def close(self):
            self.redis.close()


    class Held:
        def __init__(self, lock, until):
            self.release, self.until = lock.release, until

        def check(self):
            return time.monotonic() < self.until


    class SaysYes(Holds):
        """Returns no lock."""

        def acquire(self, name, timeout):
            return True


    class LetsAllIn(Holds):
        """Takes no for an answer, and goes on."""

        def acquire(self, name, timeout):
            self.redis.set(name, "mine", nx=True)
            return self

        def release(self):
            self.redis.delete(self.__class__.__name__)
'''


@pytest.fixture(name="challenged")
def _challenged(cli, tmp_path, monkeypatch):
    """Challenge a class of the module above, which is in the current directory only."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_locks.py").write_text(dedent(OWN_LOCKS))

    def challenge(*arguments: str, errors: bool = False) -> tuple[int, dict]:
        # -P, because `python -m` alone would look for modules in the current directory.
        command = [sys.executable, "-P", "-m", "lockfast", "challenge", *arguments, "--json"]
        process = cli.start_program(command)
        said, told = process.communicate(timeout=240)
        if errors:
            return process.returncode, json.loads(told.splitlines()[-1])
        assert said, told.decode()
        return process.returncode, json.loads(said)

    return challenge


@pytest.mark.timeout(300)  # on a busy machine, a run waits longer before it reports a stall
def test_a_lock_that_holds_is_not_accused_of_what_it_does_not_offer(challenged):
    lock = ("--lock", "own_locks:Holds", "--faults", "holder-frozen")

    _, answer = challenged(*lock, "--start", "redis", *SHORT)

    assert answer["figures"]["grants"] > 2
    assert answer["setting"]["lock"] == "own_locks:Holds"
    assert not {"overlap", "token"} & {one["kind"] for one in answer["findings"]}
    assert "--lock own_locks:Holds --start redis --seed 7" in answer["again"]


@pytest.mark.timeout(300)  # as above
def test_a_lock_that_lets_two_in_is_found_on_a_server_that_is_there(challenged):
    url = shared_server().url

    code, answer = challenged("--lock", "own_locks:LetsAllIn", url, *SHORT)

    assert (code, answer["verdict"]) == (1, "invalid")
    assert "overlap" in {one["kind"] for one in answer["findings"]}


def test_a_lock_that_cannot_be_released_is_told_with_what_to_do(challenged):
    code, answer = challenged("--lock", "own_locks:SaysYes", shared_server().url, errors=True)

    assert (code, answer["error"]) == (78, "ConfigurationError")
    assert "a client could not begin" in answer["message"]
    assert "return the held lock, or None" in answer["message"]


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("--lock", "a:B"), 2, "--lock module:Class needs one of the first two"),
        (("--lock", "a:B", "--replay", "x"), 2, "leave out --lock"),
        (("--lock", "nowhere_at_all:B", "--start", "etcd"), 78, "there is no module"),
        (("--lock", "json:JSONDecoder", "--start", "etcd"), 78, "has no method acquire"),
    ],
)
def test_a_lock_that_cannot_be_used_is_refused_before_a_server_starts(
    cli, arguments, code, sentence
):
    """No program of a server is on the path, which would be refused too."""
    done = cli("challenge", *arguments, env={"PATH": "/nowhere"})

    assert (done.returncode, done.stdout) == (code, "")
    assert sentence in done.stderr
    assert "starting" not in done.stderr
