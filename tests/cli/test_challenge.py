"""`lockfast challenge` as users meet it: real clients, real faults, a report."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from lockfast_challenge.processes import EVENTUALLY_SECONDS

SHORT = ("--time", "1", "--clients", "2", "--ttl", "1", "--seed", "7")
LONG = ("--time", "600", "--clients", "2", "--ttl", "1")


def is_anybody_left(folder: Path) -> bool:
    """Return whether a client that writes into this folder is still running."""
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # the process has ended, or is another user's
            if b"lockfast_challenge.clients" not in one.read_bytes():
                continue
            for opened in one.with_name("fd").iterdir():
                with suppress(OSError):  # the file was closed meanwhile
                    if opened.readlink().is_relative_to(folder):
                        return True
    return False


# -- a run -----------------------------------------------------------------------------


@pytest.mark.timeout(300)  # on a busy machine, a run waits longer before it reports a stall
def test_a_run_is_told_as_json_as_a_page_and_kept_as_histories(cli, tmp_path):
    report, history = tmp_path / "report.html", tmp_path / "history"
    faults = ("--faults", "holder-killed,holder-frozen")
    kept = ("--report", str(report), "--history", str(history))

    process = cli.start("challenge", "--start", "sqlite", *SHORT, *faults, *kept, "--json")
    said, progress = process.communicate(timeout=240)

    answer = json.loads(said)
    assert process.returncode == {"valid": 0, "invalid": 1, "unknown": 70}[answer["verdict"]]
    assert (answer["verdict"] == "unknown") <= bool(answer["coverage"]["unmet"])
    assert answer["figures"]["grants"] > 2
    assert answer["setting"]["seed"] == 7
    assert answer["setting"]["faults"] == ["holder-killed", "holder-frozen"]
    struck = {one["kind"] for one in answer["faults"]}
    assert struck | set(answer["coverage"]["unmet"]) == {"holder-killed", "holder-frozen"}
    assert "--start sqlite --seed 7" in answer["again"]
    assert "<svg" in report.read_text()
    assert {"0.jsonl", "1.jsonl"} <= {one.name for one in history.iterdir()}
    assert progress.decode().startswith("lockfast: starting sqlite\n")
    assert not is_anybody_left(history)

    # The recorded run is judged again by the same checker, with the same result.
    replayed = cli("challenge", "--replay", str(history), "--json")
    again = json.loads(replayed.stdout)
    assert replayed.returncode == process.returncode
    assert again["setting"] == answer["setting"]
    assert [one["kind"] for one in again["findings"]] == [one["kind"] for one in answer["findings"]]
    assert again["figures"]["grants"] == answer["figures"]["grants"]


@pytest.mark.timeout(300)  # as above
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_ends_its_clients_and_tells_what_it_saw(
    cli, tmp_path, eventually, number
):
    history = tmp_path / "history"
    process = cli.start(
        "challenge", "--start", "sqlite", *LONG, "--history", str(history), "--json"
    )
    # Any client's diary will do: a client killed before its first lock goes on in another diary.
    eventually(lambda: any('"ok"' in one.read_text() for one in history.glob("*.jsonl")))
    assert is_anybody_left(history)

    process.send_signal(number)
    said, _ = process.communicate(timeout=EVENTUALLY_SECONDS)

    answer = json.loads(said)
    assert process.returncode == 128 + number
    assert (answer["verdict"], answer["cut_short"]) == ("unknown", signal.Signals(number).name)
    assert answer["summary"].endswith(f"cut short by {answer['cut_short']}")
    assert not is_anybody_left(history)

    again = json.loads(cli("challenge", "--replay", str(history), "--json").stdout)
    assert (again["verdict"], again["cut_short"]) == ("unknown", answer["cut_short"])


@pytest.mark.timeout(300)  # as above
def test_a_broken_lock_is_found_by_its_own_schedule(cli):
    process = cli.start("challenge", "--lock", "unchecked-acquire", "--seed", "1", "--json")
    said, _ = process.communicate(timeout=240)

    answer = json.loads(said)
    assert (process.returncode, answer["verdict"]) == (1, "invalid")
    assert "overlap" in {one["kind"] for one in answer["findings"]}
    assert answer["again"] == "lockfast challenge --lock unchecked-acquire --seed 1 --time 60"


# -- bad input -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        ((), 2, "a URL, --start STORE, --lock NAME or"),
        (("redis://localhost", "--start", "redis"), 2, "a URL, --start STORE, --lock NAME or"),
        (("--start", "oracle"), 2, "'oracle' is not one of 'redis'"),
        (("--start", "sqlite", "--clients", "1"), 2, "2<=x<=64"),
        (("--lock", "dance"), 2, "'bare-delete'"),
        (("--start", "sqlite", "--workload", "dance"), 2, "'guarded-counter'"),
        (("--start", "sqlite", "--faults", "holder-frozzen"), 78, "did you mean 'holder-frozen'"),
        (("--start", "sqlite", "--faults", "xyz"), 78, "there are: asker-replies-held, "),
        (("redis://192.0.2.7", "--faults", "server-paused"), 78, "add --yes-break-it"),
        (("--start", "sqlite", "--report", "/nowhere/r.html"), 78, "/nowhere/r.html cannot be"),
        (("--start", "sqlite", "--history", "/dev/null/x"), 78, "--history /dev/null/x cannot"),
        (("memcached://192.0.2.7", "--workload", "read-write"), 78, "has no read-write locks; it"),
        (("redlock://192.0.2.7", "--workload", "semaphore"), 78, "redlock has no semaphores; it"),
        (("--start", "memcached", "--workload", "semaphore"), 78, "memcached has no semaphores"),
        (("--start", "memcached", "--workload", "guarded-set"), 78, "memcached has no tokens"),
        (("--replay", "/nowhere"), 78, "name a folder that --history made"),
        (("memory://",), 78, "memory:// is not known; one of these is: redis"),
        (("localhost",), 78, "localhost:// is not known; one of these is: redis"),
    ],
)
def test_bad_input_is_told_what_to_do(cli, arguments, code, sentence):
    done = cli("challenge", *arguments)

    assert (done.returncode, done.stdout) == (code, "")
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_a_store_that_cannot_be_reached_is_told_before_any_client_starts(cli, dead_port, tmp_path):
    history = tmp_path / "history"

    done = cli("challenge", f"redis://127.0.0.1:{dead_port}", "--history", str(history), "--json")

    assert done.returncode == 69
    assert json.loads(done.stderr.splitlines()[-1])["error"] == "BackendUnavailable"
    assert list(history.iterdir()) == []


def test_a_folder_with_another_history_is_refused(cli, tmp_path):
    (tmp_path / "0.jsonl").write_text("")

    done = cli("challenge", "--start", "sqlite", "--history", str(tmp_path))

    assert done.returncode == 78
    assert "is not empty" in done.stderr


def test_a_server_that_is_not_installed_is_named_with_its_package(cli):
    done = cli("challenge", "--start", "etcd", env={"PATH": "/nowhere"})

    assert done.returncode == 78
    assert "Debian package etcd-server" in done.stderr


def test_a_driver_that_is_not_installed_is_named_with_how_to_get_it():
    program = (
        "import sys; sys.modules['redis'] = None\n"
        "sys.argv = ['lockfast', 'challenge', '--start', 'redis']\n"
        "from lockfast.__main__ import main; sys.exit(main())"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=os.environ
    )

    assert done.returncode == 78
    assert "lockfast[challenge]" in done.stderr
