"""A class with only a part of the interface is a contender too, and says what it offers."""

from __future__ import annotations

import sys
from textwrap import dedent
from typing import Self

import pytest

from lockfast import ConfigurationError
from lockfast_challenge.cli.lock_class import found
from lockfast_challenge.contender import (
    NeverRaised,
    NotGranted,
    as_held,
    is_closed_at_end,
    made_by,
    opened,
)


class Bare:
    """The least that a held lock may be."""

    def __init__(self, answer: object = None) -> None:
        self._answer = answer

    def release(self) -> object:
        return self._answer


class Asked(Bare):
    """Also answers a check."""

    def check(self) -> object:
        return self._answer


# -- a held lock ---------------------------------------------------------------------------


def test_a_lock_without_a_check_is_trusted_until_it_is_released():
    held = as_held(Bare())

    assert held is not None
    held.check()
    held.release()


@pytest.mark.parametrize("answer", [None, False])
def test_an_acquire_that_returns_no_lock_is_a_definite_no(answer):
    assert as_held(answer) is None


def test_a_check_or_a_release_that_returns_false_is_a_definite_no():
    held = as_held(Asked(answer=False))

    assert held is not None
    with pytest.raises(NotGranted):
        held.check()
    with pytest.raises(NotGranted):
        held.release()


@pytest.mark.parametrize(
    ("token", "counted"), [(7, 7), ("0f3a", None), (b"0f", None), (True, None), (None, None)]
)
def test_only_a_number_is_a_fencing_token(token, counted):
    """Many libraries call the random id of a holder its token."""
    bare = Bare()
    bare.token = token

    held = as_held(bare)

    assert held is not None
    assert held.token == counted


def test_an_acquire_that_only_says_yes_ends_the_client_with_what_to_do():
    with pytest.raises(NeverRaised, match="return the held lock, or None"):
        as_held(True)


# -- a contender ---------------------------------------------------------------------------


class Closing:
    """Has a method `close`, and neither a ttl nor a clock."""

    def __init__(self, url: str) -> None:
        self.url, self.is_closed = url, False

    def close(self) -> None:
        self.is_closed = True


class Entering:
    """A context manager, with a ttl."""

    def __init__(self, url: str, ttl: float) -> None:
        self.url, self.ttl, self.is_closed = url, ttl, False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.is_closed = True


@pytest.mark.parametrize("make", [Closing, Entering])
def test_a_contender_is_closed_at_the_end_whatever_happened(make):
    seen = []

    def fail() -> None:
        with opened(make, "u", ttl=2.0, clock_ahead=0.0) as one:
            seen.append((one, one.is_closed))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    [(one, was_closed)] = seen
    assert (was_closed, one.is_closed) == (False, True)
    assert is_closed_at_end(make)


def test_a_contender_that_cannot_be_closed_is_not_judged_by_what_it_leaves():
    assert not is_closed_at_end(Bare)


# -- a class that the user names -----------------------------------------------------------


OWN = (
    "class Own:\n    def __init__(self, url): ...\n    def acquire(self, name, timeout): ...\n    "
)


@pytest.fixture(name="module")
def _module(monkeypatch, tmp_path):
    """Write a module into the current directory, which is not on the module path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    name = f"locks_of_{tmp_path.name.replace('-', '_')}"

    def write(text: str) -> str:
        (tmp_path / f"{name}.py").write_text(dedent(text))
        return name

    yield write
    sys.modules.pop(name, None)


def test_a_class_is_found_in_the_current_directory(module):
    name = module(OWN)

    lock = found(f"{name}:Own")

    assert made_by(lock.dotted).__name__ == "Own"


@pytest.mark.parametrize(
    ("offers", "workloads"),
    [
        ("", {"counter", "set", "short-lock", "long-lease", "lock"}),
        ("is_renewed = False", {"short-lock"}),
        (
            "has_tokens = True",
            {"guarded-counter", "guarded-set", "short-lock", "long-lease", "lock"},
        ),
        (
            "def acquire_share(self, name, *, weight, capacity, timeout): ...",
            {"counter", "set", "short-lock", "long-lease", "lock", "read-write", "semaphore"},
        ),
    ],
    ids=["plain", "not-renewed", "tokens", "shared"],
)
def test_a_lock_is_not_asked_for_what_it_does_not_offer(module, offers, workloads):
    name = module(OWN + offers)

    assert set(found(f"{name}:Own").workloads) == workloads


def test_a_workload_for_several_holders_is_refused_without_the_method_for_it(module):
    name = module(OWN)

    with pytest.raises(ConfigurationError, match="choose another workload"):
        found(f"{name}:Own").check_workload("semaphore")


@pytest.mark.parametrize(
    ("text", "lock", "sentence"),
    [
        ("", ":Own", "write it as module:Class"),
        ("", "no_such_module:Own", "run the command in the folder that contains it"),
        ("class Other:\n    def acquire(self): ...", "{}:Own", "has no class 'Own'; it has Other"),
        ("Own = 3", "{}:Own", "has no class 'Own'"),
        ("class Own: ...", "{}:Own", r"has no method acquire\(name, timeout\)"),
        ("class Own:\n    acquire = None", "{}:Own", r"has no method acquire\(name, timeout\)"),
        (
            "class Own:\n    def __init__(self): ...\n    def acquire(self, name, timeout): ...",
            "{}:Own",
            r"called as Own\(url, ttl=seconds\)",
        ),
        (
            "class Own:\n    def __init__(self, url): ...\n    def acquire(self, name): ...",
            "{}:Own",
            r"called as acquire\(name, timeout=seconds\)",
        ),
        ("import no_such_driver", "{}:Own", "No module named 'no_such_driver'"),
        ("raise SystemExit(3)", "{}:Own", "run it with Python to see the whole error"),
        ("def", "{}:Own", "SyntaxError"),
    ],
    ids=[
        *("no-module", "missing-module", "missing-class", "no-class", "no-acquire"),
        *("acquire-no-method", "no-url", "no-timeout", "missing-driver", "ends", "no-python"),
    ],
)
def test_a_class_that_cannot_be_used_is_refused_with_what_to_do(module, text, lock, sentence):
    name = module(text)

    with pytest.raises(ConfigurationError, match=sentence):
        found(lock.format(name))
