"""`ls` and `show`: which locks, in which order, and how they fit the width of the screen."""

from __future__ import annotations

import re
import threading

import pytest
from click.testing import CliRunner

import lockfast
from lockfast.cli.app import app
from lockfast.cli.ls import chosen, laid_out
from lockfast.model import ALL, Closing, Holder, Inspection, Owner, Waiter

WORKER = Owner(host="web1", pid=4711, label="report")


def seen(
    name: str, *, age: float = 5.0, waiters: tuple[float, ...] = (), capacity: int = 1
) -> Inspection:
    holder = Holder(WORKER, 1794866371155135, 1, age, 25.0)
    line = tuple(Waiter(WORKER, 1, number + 1, age) for number, age in enumerate(waiters))
    return Inspection(name, capacity, (holder,), line)


def shown(*some: Inspection, width: int | None = None) -> list[str]:
    return ["".join(text for text, _ in line) for line in laid_out(some, width=width)]


LOCKS = [
    seen("a", age=5.0, waiters=(3.0, 1.0)),
    seen("b", age=7200.0),
    seen("c", age=60.0, waiters=(90.0,)),
    seen("d", age=1.0),
]


def test_a_table_tells_kind_ttl_and_who_waits_for_how_long():
    head, row = shown(seen("nightly-report", waiters=(12.0, 3.0)))

    assert head.split() == [
        "NAME", "HELD", "BY", "FOR", "TTL", "LEFT", "TOKEN", "KIND", "WAITED", "WAITING"
    ]  # fmt: skip
    assert re.split(" {2,}", row) == [
        "nightly-report", "web1 pid 4711 (report)", "5.0 s", "25 s", "1794866371155135", "lock",
        "12 s", "2"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sort", "order"), [("name", "abcd"), ("age", "bcad"), ("waiters", "acbd")]
)
def test_locks_come_in_the_order_that_is_asked_for(sort, order):
    assert "".join(one.name for one in chosen(LOCKS, sort=sort)) == order


def test_only_those_that_are_held_for_long_are_shown():
    assert [one.name for one in chosen(LOCKS, older_than=60)] == ["b", "c"]
    assert [one.name for one in chosen(LOCKS, older_than=0)] == ["a", "b", "c", "d"]


def test_forty_columns_show_a_few_lines_for_each():
    lines = shown(seen("nightly-report", waiters=(12.0, 3.0)), width=40)

    assert lines == [
        "nightly-report",
        "  held by web1 pid 4711 (report)",
        "  lock, for 5.0 s, ttl left 25 s",
        "  token 1794866371155135",
        "  2 waiting, for 12 s",
    ]
    assert max(map(len, lines)) <= 40


def test_what_does_not_fit_into_a_line_goes_on_below_its_beginning():
    """The rest is indented, because the left edge is for names, and no line is just a lone "s"."""
    one = seen("pool", age=7500.0, capacity=12)

    lines = shown(one, width=40)

    assert lines[2:4] == ["  semaphore of 12, for 2 h 5 min,", "    ttl left 25 s"]


def test_a_screen_has_no_room_for_columns_in_which_nothing_stands():
    """A screen leaves out empty columns; a pipe keeps them, so each column has a fixed number."""
    for width, columns in ((80, 6), (None, 8)):
        head, _ = shown(seen("report"), width=width)
        assert len(re.split(" {2,}", head)) == columns


def test_a_wide_screen_shows_a_table_and_wraps_no_line():
    lines = shown(*LOCKS, width=100)

    assert len(lines) == 5
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize("width", [None, 40])
def test_a_name_that_stays_closed_is_shown_as_closed(width):
    one = Inspection("cron-mail", 1, (), (), closing=(Closing(WORKER, 1, 30.0),))

    assert "closed for 30 s more after web1 pid 4711 (report)" in "\n".join(shown(one, width=width))


def test_readers_and_the_writer_are_told_apart():
    reader, writer = (Holder(WORKER, 7, weight, 5.0, 25.0) for weight in (1, ALL))

    for holder, role in ((reader, "reader"), (writer, "writer")):
        _, row = shown(Inspection("config", ALL, (holder,), ()))
        assert role in row.split()


def test_columns_stand_below_each_other_also_under_wide_letters():
    lines = shown(seen("注文"), seen("order"))

    # Each of these characters takes two columns.
    assert lines[1].index("web1") + 2 == lines[2].index("web1") == lines[0].index("HELD")


@pytest.fixture
def locks(cli):
    with lockfast.Locks(cli.url, label="worker") as one:
        yield one


def test_json_tells_the_kind(cli, locks):
    with (
        locks.lock("a"),
        locks.rwlock("b").read(),
        locks.semaphore("c", capacity=3),
    ):
        listed = {one["name"]: one["kind"] for one in cli.json("ls")["locks"]}

    assert listed == {"a": "lock", "b": "rwlock", "c": "semaphore"}


def test_ls_takes_an_order_and_an_age(cli, locks):
    with locks.lock("a"), locks.lock("b"):
        listed = cli("ls", "--sort", "age").stdout.splitlines()
        old = cli("ls", "--sort", "waiters", "--older-than", "3600").stdout.splitlines()

    assert {one.split()[0] for one in listed} == {"NAME", "a", "b"}, listed
    assert [one.split()[0] for one in old] == ["NAME"], old


def test_an_order_that_is_not_there_is_refused_listing_the_others():
    refused = CliRunner().invoke(app, ["ls", "--sort", "colour"])

    assert refused.exit_code == 2
    assert "'name', 'age', 'waiters'" in refused.output


def test_show_tells_who_reads_and_who_waits_to_write(cli, locks, eventually, inspect):
    with lockfast.Locks(cli.url) as others:
        writer = others.rwlock("config").write()
        waiting = threading.Thread(target=lambda: writer.acquire().release())
        with locks.rwlock("config").read():
            waiting.start()
            eventually(lambda: inspect("config").line)

            text = cli("show", "config").stdout
            listed = cli("ls").stdout
        waiting.join()

    assert "config: read-write lock, 1 waiting" in text
    assert "reads" in text
    assert "waits 1 to write" in text
    assert "reader" in listed.split()
