"""Platform-specific features are used in one room only, and each platform offers the same names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "lockfast"

PLATFORMS = ("linux", "macos", "windows")

# Files that may depend on POSIX or Linux throughout, and why.
ALLOWED = {
    "platforms/": "the room for it",
    "cli/demo/crew.py": "freezes processes; `cli/app.py` says where it can",
    "cli/run_process.py": "a part of `lockfast run`, which `cli/app.py` refuses on Windows",
    "cli/run.py": "as above",
    "cli/run_supervision.py": "as above",
}

MODULES = {
    "fcntl",
    "grp",
    "msvcrt",
    "nt",
    "posix",
    "pty",
    "pwd",
    "resource",
    "select",
    "syslog",
    "termios",
    "tty",
    "winreg",
}
"""Modules that not every platform has, and `select`, which differs between platforms."""

NAMES = {
    "asyncio": {"open_unix_connection", "start_unix_server"},
    "os": {
        "chown",
        "closerange",
        "eventfd",
        "fchmod",
        "fchown",
        "fork",
        "getegid",
        "geteuid",
        "getgid",
        "getloadavg",
        "getpgid",
        "getpgrp",
        "getuid",
        "killpg",
        "O_CLOEXEC",
        "O_DIRECTORY",
        "O_NOFOLLOW",
        "pidfd_open",
        "pread",
        "pwrite",
        "register_at_fork",
        "sched_getaffinity",
        "set_blocking",
        "setpgid",
        "setsid",
        "statvfs",
        "sysconf",
        "tcgetpgrp",
        "tcsetpgrp",
        "uname",
    },
    "signal": {
        "pthread_sigmask",
        "SIGALRM",
        "SIGCHLD",
        "SIGCONT",
        "SIGHUP",
        "SIGKILL",
        "SIGPIPE",
        "SIGQUIT",
        "SIGSTOP",
        "SIGTSTP",
        "SIGUSR1",
        "SIGUSR2",
        "sigwait",
    },
    "socket": {"AF_UNIX", "MSG_DONTWAIT", "send_fds", "SO_RCVTIMEO", "SO_REUSEPORT", "SO_SNDTIMEO"},
    "sys": {"platform", "getwindowsversion"},
    "time": {"clock_gettime", "CLOCK_BOOTTIME", "CLOCK_MONOTONIC", "CLOCK_REALTIME"},
}


def uses(text: str) -> Iterator[str]:
    """Yield what a file uses of features that some platforms lack or that differ between them."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            names = NAMES.get(node.module or "", set())
            yield from ([node.module] if node.module in MODULES else [])
            yield from (f"{node.module}.{one.name}" for one in node.names if one.name in names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in NAMES.get(node.value.id, ()):
                yield f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.Constant) and str(node.value).startswith("/proc/"):
            yield str(node.value)


def strangers(package: Path, allowed: dict[str, str]) -> list[str]:
    """Return the platform-specific uses outside the allowed files and folders."""
    return [
        f"{path.relative_to(package).as_posix()} uses {one}"
        for path in sorted(package.rglob("*.py"))
        for one in uses(path.read_text(encoding="utf-8"))
        if not path.relative_to(package).as_posix().startswith(tuple(allowed))
    ]


def offered(path: Path) -> set[str]:
    """Return the names that a module lists in its `__all__`."""
    [names] = (
        ast.literal_eval(node.value)
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    return set(names)


def test_what_not_every_platform_has_is_used_in_one_room_alone() -> None:
    assert strangers(PACKAGE, ALLOWED) == []


def test_every_exception_exists_and_is_one() -> None:
    """A stale entry would claim a platform dependency that no longer exists."""
    used = [one.partition(" uses ")[0] for one in strangers(PACKAGE, {})]

    assert [one for one in ALLOWED if not any(path.startswith(one) for path in used)] == [
        "cli/run.py",
    ]


def test_each_platform_offers_the_same() -> None:
    linux, *others = (offered(PACKAGE / "platforms" / f"{one}.py") for one in PLATFORMS)

    assert [one ^ linux for one in others] == [set(), set()]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import fcntl", ["fcntl"]),
        ("import select", ["select"]),
        ("from resource import getrlimit", ["resource"]),
        ("def f():\n    import pwd", ["pwd"]),
        ("import os\nos.fork()", ["os.fork"]),
        ("from os import register_at_fork", ["os.register_at_fork"]),
        ("import signal\nsignal.SIGHUP", ["signal.SIGHUP"]),
        ("import sys\nif sys.platform == 'linux': ...", ["sys.platform"]),
        ("Path('/proc/self/fd')", ["/proc/self/fd"]),
        ("import os, selectors, signal\nos.getpid(), signal.SIGTERM, signal.SIGINT", []),
    ],
)
def test_the_checker_catches_what_is_bound_to_a_platform(text: str, found: list[str]) -> None:
    assert list(uses(text)) == found
