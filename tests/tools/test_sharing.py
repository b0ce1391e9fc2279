"""Servers shared in a folder end when the folder is left, and start again on return."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from servers import sharing
from servers.echo import EchoServer
from servers.sharing import leave_room, shared_in_its_room

HERE = "tests/backends/etcd/test_wire.py::test_one"
ELSEWHERE = "tests/backends/zookeeper/test_wire.py::test_one"


@pytest.fixture
def shared(monkeypatch) -> Iterator[object]:
    monkeypatch.setattr(sharing, "_SHARED", [])
    yield shared_in_its_room(lambda: EchoServer().start())
    leave_room(HERE, ELSEWHERE)


def test_the_tests_of_a_room_have_the_same(shared):
    before = shared()

    leave_room(HERE, "tests/backends/etcd/faults/test_members.py::TestAll::test_one[sync]")

    assert shared() is before
    assert before.is_running


def test_it_ends_with_the_last_test_of_its_room_and_is_started_anew_for_the_next(shared):
    before = shared()

    leave_room(HERE, ELSEWHERE)

    assert not before.is_running
    after = shared()
    assert after is not before
    assert after.is_running


def test_what_nobody_asked_for_is_not_started(shared, monkeypatch):
    monkeypatch.setattr(EchoServer, "start", None)

    leave_room(HERE, ELSEWHERE)


def test_tests_of_no_store_are_at_home_in_their_folder(shared):
    before = shared()

    leave_room("tests/cli/test_run.py::test_one", "tests/cli/test_demo.py::test_one")
    assert before.is_running
    leave_room("tests/cli/test_run.py::test_one", "tests/docs/test_links.py::test_one")

    assert not before.is_running
