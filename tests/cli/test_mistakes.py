"""The likeliest mistakes: each gets one sentence that says what to do."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

import lockfast
from lockfast.cli.app import app

MAIN = Path(lockfast.__file__).with_name("__main__.py")
SECRET = "tops3cret"


def _run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )


def test_without_the_extra_it_says_how_to_get_it():
    done = _run(
        "import sys; sys.modules['click'] = None\n"
        "from lockfast.__main__ import main; sys.exit(main())"
    )

    assert done.returncode == 78
    assert done.stderr == 'lockfast: the command line is an extra: pip install "lockfast[cli]"\n'


def test_an_old_python_is_told_which_one_is_needed():
    done = _run(
        "import runpy, sys; sys.version_info = (3, 8, 10)\n"
        f"runpy.run_path({str(MAIN)!r}, run_name='__main__')"
    )

    assert done.returncode == 78
    assert done.stderr == (
        "lockfast: needs Python 3.11 or newer, and this is 3.8: start it with a newer one\n"
    )


def test_an_old_python_can_read_the_way_in():
    ast.parse(MAIN.read_text(), feature_version=(3, 7))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run", "report", "ls", "-l"], "put -- before the command"),
        (["run", "report"], "put -- before the command"),
        (["run", "--", "ls", "-l"], "before -- stand one NAME and options"),
        (["run", "--quiet", "--", "ls"], "before -- stand one NAME and options"),
        (["run", "report", "ls", "--", "-l"], "before -- stand one NAME and options"),
        (["run", "report", "--"], "Missing argument 'COMMAND...'"),
        (["run", "report", "--no-wait", "--timeout", "1", "--", "true"], "exclude each other"),
        (["run", "report", "-E", "300", "--", "true"], "0<=x<=255"),
        (["run", "report", "--ttl", "soon", "--", "true"], "'soon' is not a valid float"),
        (["dance"], "No such command 'dance'"),
        (["shwo", "report"], "No such command 'shwo'. Did you mean 'show'?"),
        (["docter"], "No such command 'docter'. Did you mean 'doctor'?"),
        (["demo", "dance"], "'oversell', 'jobs', 'frozen'"),
    ],
)
def test_wrong_usage_is_told_what_is_right(arguments, sentence):
    result = CliRunner().invoke(app, arguments)

    assert result.exit_code == 2
    assert sentence in result.output


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("localhost", "the URL has no scheme: write redis://HOST"),
        ("radish://localhost", "unknown scheme 'radish'"),
        ("sqlite:////no/such/folder/locks.db", "/no/such/folder is not a directory"),
        ("memory://", "leave --url out for the embedded file"),
    ],
)
@pytest.mark.parametrize("command", [("ls",), ("run", "report", "--", "true")])
def test_a_wrong_url_is_told_what_is_accepted(cli, url, sentence, command):
    done = cli(command[0], "--url", url, *command[1:])

    assert done.returncode == 78
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "command",
    [("ls",), ("show", "report"), ("break", "report", "--yes"), ("doctor",)],
    ids=" ".join,
)
def test_looking_at_a_file_that_is_not_there_makes_none(cli, tmp_path, command):
    """If the command created the file, a mistyped path would look like an idle store from then."""
    path = tmp_path / "lokcs.db"

    done = cli(*command, "--url", f"sqlite://{path}")

    assert done.returncode == 78
    assert f"there is no file {path}" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not path.exists()


def test_locking_in_a_file_that_is_not_there_makes_it(cli, tmp_path):
    path = tmp_path / "new.db"

    assert cli("run", "report", "--url", f"sqlite://{path}", "--", "true").returncode == 0
    assert path.exists()


def test_the_embedded_default_may_not_be_there_yet(cli, tmp_path):
    done = cli("ls", "--json", env={"LOCKFAST_URL": "", "XDG_STATE_HOME": str(tmp_path)})

    assert done.returncode == 0
    assert json.loads(done.stdout)["locks"] == []


AS_NOBODY = """
import os, sys
import lockfast.backends.sqlite._sync.backend
import lockfast.cli.app, lockfast.cli.ls
if os.getuid() == 0:  # to whom no directory is closed
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
sys.argv[0] = "lockfast"
sys.exit(lockfast.cli.app.main())
"""


@pytest.mark.parametrize("how", ["named", "default"])
def test_a_state_directory_of_another_user_is_told_as_such(how):
    """After `sudo -u`, XDG_STATE_HOME or a path in the URL may belong to another user."""
    with tempfile.TemporaryDirectory() as state:
        Path(state).chmod(0o755)
        closed = Path(state, "lockfast")
        closed.mkdir(mode=0)
        url = f"sqlite://{closed}/locks.db" if how == "named" else ""

        done = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, "ls"],
            env={**os.environ, "LOCKFAST_URL": url, "XDG_STATE_HOME": state},
            capture_output=True,
            text=True,
            check=False,
        )

    assert done.returncode == 78
    assert done.stderr == (
        f"lockfast: {closed}/locks.db: Permission denied; choose a path that this user may write "
        "(sqlite:///…)\n"
    )


def test_a_wrong_value_is_told_what_is_accepted(cli):
    done = cli("run", "report", "--ttl", "0", "--", "true")

    assert done.returncode == 78
    assert "at least 0.05 s and at most 604800 s (a week) is accepted" in done.stderr


def test_an_unknown_name_is_told_those_that_look_alike(cli, held):
    held("nightly-report")

    done = cli("show", "nightly-reports")

    assert done.returncode == 1
    assert done.stdout == ""
    assert "did you mean 'nightly-report'?" in done.stderr


def test_an_unknown_name_in_an_idle_store_asks_whether_it_is_the_right_store(cli, tmp_path):
    done = cli("show", "report")

    assert done.returncode == 1
    assert f"no lock 'report' at {tmp_path}/locks.db" in done.stderr
    assert "is it the store of your application (--url)?" in done.stderr


def test_a_store_that_is_down_is_told_as_such(cli, tmp_path):
    """A file that another program keeps locked is as good as down."""
    program = (
        f"import sqlite3, sys; database = sqlite3.connect('{tmp_path}/locks.db')\n"
        "database.execute('BEGIN EXCLUSIVE'); print('locked', flush=True); sys.stdin.read()"
    )
    cli("ls")
    locker = cli.start_program([sys.executable, "-c", program], stdin=subprocess.PIPE)
    locker.stdout.readline()

    done = cli("run", "report", "--timeout", "0.1", "--", "true")

    assert done.returncode == 69
    assert "stayed locked by others" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_error_in_json_is_json_too(cli):
    done = cli("ls", "--url", "radish://localhost", "--json")

    assert done.stdout == ""
    assert '"error": "ConfigurationError"' in done.stderr
    assert '"exit_code": 78' in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("ls",),
        ("ls", "--json"),
        ("show", "report"),
        ("break", "report", "--yes"),
        ("doctor",),
        ("doctor", "--json"),
        ("demo", "jobs"),
        ("demo", "jobs", "--json"),
        ("--help",),
        ("run", "--help"),
    ],
)
def test_no_secret_of_the_url_is_shown(command, dead_port):
    url = f"redis://user:{SECRET}@127.0.0.1:{dead_port}/0"

    result = CliRunner(env={"LOCKFAST_URL": url}).invoke(app, command)

    assert SECRET not in result.output


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_no_secret_of_the_url_is_shown_by_a_run(cli, options, dead_port):
    url = f"redis://user:{SECRET}@127.0.0.1:{dead_port}/0"

    done = cli("run", "report", *options, "--", "true", env={"LOCKFAST_URL": url})

    assert done.returncode != 0
    assert SECRET not in done.stdout + done.stderr
