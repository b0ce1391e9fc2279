"""A diary can be read while it is being written, up to its last whole line."""

from __future__ import annotations

from contextlib import closing

import pytest

from lockfast_challenge.clients.diary import Diary, Reader
from lockfast_challenge.history import operations


@pytest.fixture(name="path")
def _path(tmp_path):
    return tmp_path / "0"


@pytest.fixture(name="diary")
def _diary(path):
    with closing(Diary(path, client="0")) as diary:
        yield diary


@pytest.fixture(name="reader")
def _reader(diary, path):
    with closing(Reader(path)) as reader:
        yield reader


def test_what_is_written_is_read_at_once(diary, reader):
    one = diary.begin("acquire", "door")
    assert [event.phase for event in reader.new()] == ["invoked"]

    one.end("ok", token=7)
    [answer] = reader.new()
    assert (answer.phase, answer.token, answer.hold) == ("ok", 7, 1)
    assert reader.new() == []


def test_half_a_line_is_read_when_it_is_whole(diary, reader, path):
    diary.begin("acquire", "door").end("ok")
    first, second, _ = path.read_bytes().split(b"\n")
    path.write_bytes(first + b"\n" + second[:10])

    assert len(reader.new()) == 1
    with path.open("ab") as file:
        file.write(second[10:] + b"\n")

    assert len(reader.new()) == 1


def test_checks_and_releases_belong_to_the_last_acquire(diary, reader):
    for act in ("acquire", "check", "release", "acquire", "release"):
        diary.begin(act, "door").end("ok")

    done = operations(reader.new())

    assert [one.hold for one in done] == [1, 1, 1, 4, 4]
