"""How servers are started: what a new server class gets without code of its own."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from puppets import environment
from servers.echo import EchoServer, asked

from lockfast_challenge.processes import eventually, family, is_dead


@pytest.fixture
def server() -> Iterator[EchoServer]:
    with EchoServer() as one:
        yield one


def test_one_that_ends_instead_of_serving_says_why():
    class Broken(EchoServer):
        def command(self) -> list[str]:
            return [sys.executable, "-c", "raise SystemExit('no such option: --colour')"]

    with pytest.raises(RuntimeError, match=r"echo did not start:\n.*no such option: --colour"):
        Broken().start()


def test_one_that_never_serves_says_what_it_wrote_at_last():
    class Mute(EchoServer):
        patience = 0.0

        def command(self) -> list[str]:
            write = "print('first', '.' * 20000, 'last', flush=True)"
            return [sys.executable, "-c", f"{write}; import time; time.sleep(600)"]

        def serves(self) -> bool:
            eventually(lambda: "last" in self.log(), what="it has written")
            return False

    with pytest.raises(RuntimeError) as told:
        Mute().start()

    assert len(str(told.value)) < 10_000
    assert "first" in str(told.value)
    assert "last" in str(told.value)


def test_a_port_that_somebody_took_meanwhile_is_exchanged_for_another():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        server = EchoServer()
        server.port = taken.getsockname()[1]

        with server:
            assert server.port != taken.getsockname()[1]
            assert asked(server.port, b"hello") == b"hello"


def test_started_again_it_has_its_port_and_its_data(server):
    before = server.port
    (server.data / "kept").write_text("yes")

    server.kill()
    with pytest.raises(ConnectionRefusedError):
        asked(server.port, b"hello")
    server.start()

    assert server.port == before
    assert (server.data / "kept").read_text() == "yes"


def test_data_that_are_dear_are_built_once_and_copied(server):
    with EchoServer() as other:
        (other.data / "number").write_text("spoilt")
        with EchoServer() as third:
            assert (third.data / "number").read_text() == "1"
    assert (server.data / "number").read_text() == "1"


def test_frozen_it_answers_nobody_not_even_by_a_child_that_has_a_client(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        lines = connection.makefile("rb")
        connection.sendall(b"one\n")
        assert lines.readline() == b"one\n"
        eventually(lambda: len(family(server.process.pid)) == 2, what="one child is left")

        server.pause()
        connection.sendall(b"two\n")
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            connection.recv(1)

        server.resume()
        connection.settimeout(20)
        assert connection.recv(4) == b"two\n"


def test_killed_it_leaves_no_child_behind(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(b"hello\n")
        assert connection.recv(6)
        eventually(lambda: len(family(server.process.pid)) == 2, what="one child is left")
        pids = family(server.process.pid)

        server.kill()

        assert all(map(is_dead, pids))


def test_stopped_it_leaves_no_directory_behind():
    with EchoServer() as server:
        assert server.directory.exists()

    assert not server.directory.exists()
    assert not server.is_running


def test_one_that_wants_another_end_than_a_kill_gets_it_also_when_it_is_frozen(tmp_path):
    class Polite(EchoServer):
        ends_by = signal.SIGTERM

        def command(self) -> list[str]:
            *python, script, port = super().command()
            goodbye = f"open({str(tmp_path / 'goodbye')!r}, 'w').close(); sys.exit()"
            handler = f"lambda *_: exec({goodbye!r})"
            return [*python, f"import signal, sys; signal.signal(15, {handler})\n{script}", port]

    with Polite() as server:
        server.pause()

    assert (tmp_path / "goodbye").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_it_dies_with_the_run_that_started_it_and_so_do_children_that_stand_still(number):
    """The server and its stopped child die however the run ends; its directories are removed."""
    script = """
import socket, time
from servers.echo import EchoServer
from lockfast_challenge.processes import eventually, family
server = EchoServer().start()
with socket.create_connection(("127.0.0.1", server.port)) as connection:
    connection.sendall(b"hello\\n")
    connection.recv(6)  # its child is there; that of the one who asked whether it serves may be too
    eventually(lambda: len(family(server.process.pid)) == 2)
    server.pause()
    print(*family(server.process.pid), flush=True)
    print(server.directory, flush=True)
    time.sleep(600)
"""
    command = [sys.executable, "-c", script]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment())
    assert run.stdout is not None
    with run.stdout as lines:
        pids = [int(one) for one in lines.readline().split()]
        directory = Path(lines.readline().decode().strip())
    assert len(pids) == 2
    assert directory.exists()

    run.send_signal(number)
    run.wait()

    eventually(lambda: all(map(is_dead, pids)), what="they are dead too")
    eventually(lambda: not directory.exists(), what="its directory is gone")
