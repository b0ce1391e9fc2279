"""`lockfast demo`: real races, counted afterwards."""

from __future__ import annotations

import importlib
import json
import sqlite3
import time
from contextlib import closing

import pytest
from click.testing import CliRunner

from lockfast import Locks
from lockfast.cli.app import app
from lockfast.cli.demo.command import Play, Span, timeline
from lockfast.cli.demo.transaction import request

FIELDS = ["story", "guarded", "sold", "stock", "duplicates", "stale_writes", "seconds"]


@pytest.fixture
def told(cli):
    """The output of one run of the whole demo."""
    return cli("demo", "--json")


def test_without_a_lock_every_story_goes_wrong_and_with_it_none(told):
    runs = {(one["story"], one["guarded"]): one for one in json.loads(told.stdout)}

    assert told.returncode == 0
    assert told.stderr == ""
    assert all(list(one) == FIELDS for one in runs.values())
    assert runs["oversell", False]["sold"] > runs["oversell", False]["stock"] == 100
    assert runs["oversell", True]["sold"] == runs["oversell", True]["stock"] == 100
    assert runs["jobs", False]["duplicates"] > 0
    assert runs["jobs", True]["duplicates"] == 0
    assert runs["frozen", False]["stale_writes"] > 0
    assert runs["frozen", True]["stale_writes"] == 0
    assert runs["transaction", False]["sold"] > runs["transaction", False]["stock"] == 20
    assert runs["transaction", True]["sold"] == runs["transaction", True]["stock"] == 20
    assert sum(one["seconds"] for one in runs.values()) < 30


def test_one_story_is_told_with_table_timeline_and_code(cli):
    shown = cli("demo", "jobs")

    assert shown.returncode == 0
    assert shown.stderr == ""
    assert "\x1b" not in shown.stdout
    for part in ("without Lockfast", "instance A", "What fixed it:", "try_acquire()", "STORY"):
        assert part in shown.stdout
    assert max(len(line) for line in shown.stdout.splitlines()) <= 80


def test_a_guarded_run_that_is_wrong_is_a_failure(cli, monkeypatch):
    """The exit code reports whether the lock failed, and nothing else."""

    def oversold(_url, *, guarded):
        return Play("oversell", guarded, 1.0, "sold 101 of 100", is_right=False, sold=101)

    story = importlib.import_module("lockfast.cli.demo.oversell")
    monkeypatch.setattr(story, "play", oversold)

    result = CliRunner().invoke(app, ["demo", "oversell", "--json", "--url", cli.url])

    assert result.exit_code == 1
    assert [one["sold"] for one in json.loads(result.stdout)] == [101, 101]


def test_a_store_that_no_other_process_sees_is_refused(cli):
    done = cli("demo", "--url", "memory://")

    assert done.returncode == 78


def _play(*spans: Span):
    return Play("jobs", guarded=False, seconds=1.0, verdict="", is_right=False, spans=spans)


def test_the_timeline_shows_who_was_at_work_when():
    first, second, scale = timeline(
        _play(Span("A", 10.0, 10.5, "one"), Span("B", 10.5, 11.0, "two", is_wrong=True))
    )

    assert first.plain.split()[0] == "A"
    assert first.plain.index("one") < second.plain.index("two")
    assert scale.plain.split() == ["0", "1.0", "s"]
    assert {len(line.plain) for line in (first, second, scale)} == {76}


def test_the_timeline_draws_what_is_too_short_for_a_column():
    row, *_ = timeline(_play(Span("A", 0.0, 0.0001), Span("A", 0.5, 1.0)))

    assert row.plain.split()[1].startswith("▌·")


@pytest.mark.parametrize("guarded", [False, True])
def test_a_sale_is_over_before_the_next_one_may_begin(guarded):
    """A late process would draw its sale over the next one, as if two had held the lock."""
    traced: list[tuple[str, float]] = []
    with Locks("memory://") as locks, closing(sqlite3.connect(":memory:")) as shop:
        shop.execute("CREATE TABLE stock (n INTEGER)")
        shop.execute("INSERT INTO stock VALUES (1)")
        shop.commit()
        shop.set_trace_callback(lambda statement: traced.append((statement, time.monotonic())))

        sale = request(shop, locks.lock("stock"), guarded=guarded)

    assert sale is not None
    [committed] = [at for statement, at in traced if statement == "COMMIT"]
    assert sale[0] <= sale[1] <= committed
