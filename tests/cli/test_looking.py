"""`ls`, `show`, `break` and `doctor`: what an operator sees and does."""

from __future__ import annotations

import json
import re
import socket

import pytest

import lockfast


@pytest.fixture
def locks(cli):
    """A client of the application, on the same store."""
    with lockfast.Locks(cli.url, label="worker") as one:
        yield one


def test_ls_shows_holders_and_how_many_wait(cli, held, eventually, inspect):
    holder = held("report")
    cli.start("run", "report", "--", "true")
    eventually(lambda: inspect("report").line)

    head, row = cli("ls").stdout.splitlines()

    assert head.split() == [
        "NAME", "HELD", "BY", "FOR", "TTL", "LEFT", "TOKEN", "KIND", "WAITED", "WAITING"
    ]  # fmt: skip
    assert row.split()[0] == "report"
    assert f"pid {holder.pid} (sh)" in row
    assert row.split()[-1] == "1"


def test_ls_shows_those_that_begin_with_a_prefix(cli, locks):
    with locks.lock("order:1"), locks.lock("report"):
        names = [one["name"] for one in cli.json("ls", "order:")["locks"]]

    assert names == ["order:1"]


def test_ls_of_an_idle_store_has_no_rows(cli):
    assert cli.json("ls")["locks"] == []
    assert len(cli("ls").stdout.splitlines()) == 1


def test_ls_shows_every_holder_of_a_semaphore(cli, locks):
    with locks.semaphore("pool", capacity=3), locks.semaphore("pool", capacity=3):
        [pool] = cli.json("ls")["locks"]
        rows = cli("ls").stdout.splitlines()

    assert pool["capacity"] == 3
    assert len(pool["holders"]) == 2
    assert len(rows) == 3


def test_ls_watch_in_a_pipe_writes_one_document_per_line(cli, held):
    held("report")
    watching = cli.start("ls", "--watch", "--json")

    documents = [json.loads(watching.stdout.readline()) for _ in range(2)]

    assert [one["locks"][0]["name"] for one in documents] == ["report", "report"]


def test_a_name_cannot_command_the_terminal(cli, locks):
    with locks.lock("evil\x1b[31m\nname"):
        shown = cli("ls").stdout

    assert "\x1b" not in shown
    assert "evil\\x1b[31m\\nname" in shown


def test_show_tells_holder_and_line(cli, held, eventually, inspect):
    holder = held("report")
    waiting = cli.start("run", "report", "--", "true")
    eventually(lambda: inspect("report").line)

    answer = cli.json("show", "report")

    [[holds], [waits]] = answer["holders"], answer["line"]
    assert set(answer) == {
        "store", "name", "kind", "capacity", "holders", "line", "last_token", "closed_for",
        "closing"
    }  # fmt: skip
    assert set(holds) == {
        "host", "pid", "context", "label", "token", "weight", "age", "remaining"
    }  # fmt: skip
    assert (holds["pid"], holds["token"]) == (holder.pid, answer["last_token"])
    assert (waits["pid"], waits["place"]) == (waiting.pid, 1)
    assert waits["age"] > 0
    text = cli("show", "report").stdout
    assert "report: lock, 1 waiting" in text
    assert f"pid {waiting.pid}" in text


def test_show_tells_since_when_somebody_waits(cli, held, eventually, inspect):
    held("report")
    waiting = cli.start("run", "report", "--", "true")
    eventually(lambda: inspect("report").line and inspect("report").line[0].age > 1.5)

    [row] = [one for one in cli("show", "report").stdout.splitlines() if "waits 1" in one]

    seconds = float(re.search(r"(\d[\d.]*) s$", row.rstrip())[1])
    assert f"pid {waiting.pid}" in row
    assert seconds >= 1.5


def test_a_name_that_stays_closed_is_shown_as_closed(cli):
    """The command has ended and the lock is released, but --min-hold keeps the name closed."""
    cli("run", "cron-mail", "--min-hold", "600", "--", "true")

    answer = cli.json("show", "cron-mail")
    [listed] = cli.json("ls")["locks"]
    refused = cli("run", "cron-mail", "--no-wait", "--", "true")

    assert answer["holders"] == listed["holders"] == []
    assert [one["label"] for one in answer["closing"]] == ["true"]
    assert 590 < listed["closed_for"] <= 600
    assert "cron-mail: lock, closed for " in cli("show", "cron-mail").stdout
    assert re.search(r"cron-mail +closed for .* more after .* \(true\)", cli("ls").stdout)
    assert refused.returncode == 75
    assert "'cron-mail' is closed for" in refused.stderr
    assert "it is closed for" in cli("break", "cron-mail", "--yes").stderr


def test_show_tells_the_kind_of_lock(cli, locks):
    with locks.rwlock("config").write():
        assert "config: read-write lock" in cli("show", "config").stdout


def test_show_of_a_free_name_tells_its_last_token(cli):
    cli("run", "report", "--", "true")

    shown = cli("show", "report")

    assert shown.returncode == 0
    assert shown.stdout == f"report: free; the last token was {_last_token(cli)}\n"


def _last_token(cli):
    return cli.json("show", "report")["last_token"]


def test_break_ends_the_lease_and_the_next_token_is_larger(cli, held):
    holder = held("report")
    token = _last_token(cli)

    broken = cli("break", "report", "--yes")

    assert broken.returncode == 0
    assert f"broke the lease of {_owner(holder)}, token {token}" in broken.stdout
    assert cli("run", "report", "--no-wait", "--", "true").returncode == 0
    assert _last_token(cli) > token


def _owner(holder):
    return f"{socket.gethostname()} pid {holder.pid} (sh)"


def test_break_in_json_tells_whom(cli, held):
    holder = held("report")

    answer = cli.json("break", "report", "--yes")

    assert [one["pid"] for one in answer["broken"]] == [holder.pid]


def test_break_of_a_free_name_says_so(cli):
    done = cli("break", "report", "--yes")

    assert done.returncode == 1
    assert "nobody holds 'report'" in done.stderr


def test_break_by_token_ends_that_lease_and_no_successors(cli, held):
    """An operator may be slow, so the lease that was looked at may have ended meanwhile."""
    held("report")
    token = _last_token(cli)

    refused = cli("break", "report", "--token", str(token - 1), "--yes")
    assert refused.returncode == 1
    assert f"nobody holds 'report' by token {token - 1}" in refused.stderr
    assert f"token {token}" in refused.stderr
    assert cli.json("show", "report")["holders"]

    assert cli("break", "report", "--token", str(token), "--yes").returncode == 0
    assert not cli.json("show", "report")["holders"]


@pytest.mark.parametrize(("token", "code"), [("0", 78), ("-1", 78), (str(2**53), 78), ("x", 2)])
def test_break_by_what_cannot_be_a_token_is_refused(cli, token, code):
    assert cli("break", "report", f"--token={token}", "--yes").returncode == code


def test_break_without_a_terminal_to_ask_wants_yes(cli, held):
    held("report")

    done = cli("break", "report", stdin="y\n")

    assert done.returncode == 2
    assert "add --yes" in done.stderr
    assert cli.json("show", "report")["holders"]


def test_doctor_tells_what_the_store_promises_and_how_to_mend_the_rest(cli, tmp_path):
    done = cli("doctor")

    assert done.returncode == 0
    assert f"{tmp_path}/locks.db" in done.stdout
    assert "excludes processes that open this very file on this machine" in done.stdout
    assert "to fix it: add ?synchronous=full" in done.stdout


def test_doctor_in_json_gives_capabilities_and_findings(cli, tmp_path):
    answer = cli.json("doctor")

    assert answer["store"] == f"{tmp_path}/locks.db"
    assert answer["version"] == lockfast.__version__
    assert answer["capabilities"]["token_quality"] == "best_effort"
    assert {frozenset(one) for one in answer["findings"]} == {
        frozenset({"level", "subject", "message", "remedy"})
    }


def test_the_commands_work_on_another_namespace(cli):
    with lockfast.Locks(cli.url, namespace="shop") as shop, shop.lock("report"):
        names = [one["name"] for one in cli.json("ls", "--namespace", "shop")["locks"]]

        assert names == ["report"]
        assert cli.json("ls")["locks"] == []


def test_without_a_url_the_path_of_the_embedded_file_is_shown(cli, tmp_path):
    done = cli("doctor", env={"LOCKFAST_URL": "", "XDG_STATE_HOME": str(tmp_path)})

    assert f"{tmp_path}/lockfast/locks.db" in done.stdout
