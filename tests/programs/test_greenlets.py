"""Programs whose threads are greenlets: gevent is supported, and eventlet is refused by name."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
from servers.redis import shared_server

from lockfast_challenge.servers.redis import RedisServer


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a separate process: patching affects a whole process."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


@pytest.fixture(params=["sqlite", "redis"])
def url(request, tmp_path) -> str:
    return f"sqlite://{tmp_path}/locks.db" if request.param == "sqlite" else shared_server().url


def test_greenlets_exclude_each_other_and_are_renewed_and_woken_and_heard_of(url):
    done = run(
        """
        from gevent import monkey
        monkey.patch_all()
        import sys, threading, time
        import lockfast

        told, counted = [], lockfast.observe.prometheus()

        def hook(event):
            time.sleep(0)  # another greenlet's turn
            told.append(event)

        locks = lockfast.Locks(
            sys.argv[1], ttl=3, namespace="greenlets", on_event=[counted, hook]
        )
        inside, most = 0, 0

        def work():
            global inside, most
            for _ in range(10):
                with locks.lock("door", timeout=30):
                    inside += 1
                    most = max(most, inside)
                    time.sleep(0.002)
                    inside -= 1

        threads = [threading.Thread(target=work) for _ in range(8)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        with locks.lock("door") as lease:
            time.sleep(4)
            lease.check()
        locks.close()
        [series] = counted.series.values()
        heard = [type(one).__name__ for one in told]
        *_, in_time, counted = series.holds.cumulative()
        print(most, heard.count("Acquired"), heard.count("Released"), counted - in_time)
        print(counted, len(series.held))
        """,
        url,
    )

    assert (done.stdout, done.stderr) == ("1 81 81 0\n81 0\n", "")


def test_a_request_of_a_greenlet_ends_in_time_although_the_server_does_not_answer():
    server = RedisServer().start()
    done = run(
        """
        from gevent import monkey
        monkey.patch_all()
        import os, signal, sys, time
        import lockfast

        locks = lockfast.Locks(sys.argv[1], request_timeout=0.5)
        with locks.lock("door"):
            pass
        os.kill(int(sys.argv[2]), signal.SIGSTOP)
        try:
            locks.lock("door").acquire(timeout=0.5)
        except lockfast.LockError as error:
            print(type(error).__name__)
        finally:
            os.kill(int(sys.argv[2]), signal.SIGCONT)
        """,
        server.url,
        str(server.process.pid),
    )
    server.stop()

    assert done.stdout in ("OutcomeUnknown\n", "BackendUnavailable\n"), done.stderr


LATE = """
    import os, sys
    import lockfast

    order = sys.argv[2].split()
    locks = None
    for step in order:
        if step == "make":
            locks = lockfast.Locks(sys.argv[1], request_timeout=30)
        elif step == "use":
            with locks.lock("door"):
                pass
        elif step == "look":
            locks.inspect("door")
        elif step == "fork" and (child := os.fork()):
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        elif step == "patch":
            from gevent import monkey
            monkey.patch_all()
"""


@pytest.mark.parametrize(
    "order",
    [
        "patch make",
        "make patch use",
        "make patch look",
        "make use patch use",
        "fork patch make",
        "make use fork patch use",
    ],
)
def test_gevent_that_patches_after_the_import_is_refused_with_the_right_order(tmp_path, order):
    """Under gunicorn with --preload, a program is imported before gunicorn forks and patches.

    A wait would block all greenlets, even those that renew and release, so leases would be lost.
    """
    done = run(LATE, f"sqlite://{tmp_path}/locks.db", order)

    assert "lockfast.errors.ConfigurationError: gevent has replaced" in done.stderr
    assert "gevent.monkey.patch_all() first and import lockfast after it" in done.stderr


def test_a_client_that_is_made_before_a_fork_serves_greenlets_if_gevent_came_first(tmp_path):
    done = run(
        "from gevent import monkey; monkey.patch_all()\n" + textwrap.dedent(LATE),
        f"sqlite://{tmp_path}/locks.db",
        "make use fork patch use look",
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_eventlet_is_refused_with_a_sentence():
    done = run(
        """
        import eventlet
        eventlet.monkey_patch()
        import lockfast

        try:
            lockfast.Locks("memory://")
        except lockfast.ConfigurationError as error:
            print(error)
        """
    )

    assert "eventlet has replaced" in done.stdout, done.stderr
