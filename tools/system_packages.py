"""Install the system packages that the tests need, and only those that are missing.

If nothing is missing, this runs no other program. Otherwise apt-get installs the packages, as root
or through `sudo -n`, without prompts, without recommended packages, and without starting a daemon.
A temporary policy-rc.d forbids the start of daemons; the previous policy is restored afterwards,
even after a failure or a signal. If the packages cannot be installed, we stop and list them.

Standard library only: this runs before anything else is installed.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import glob
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

LIST = Path(__file__).with_name("system_packages.txt")
POLICY = Path("/usr/sbin/policy-rc.d")

# Servers are installed in these directories, which an ordinary user's PATH often lacks.
SYSTEM_PATH = ("/usr/local/sbin", "/usr/sbin", "/sbin")

# invoke-rc.d runs this script before it starts a service; 101 means "forbidden".
FORBID = """\
#!/bin/sh
# Put here by Lockfast's tools/system_packages.py while it installs.
exit 101
"""

SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)

APT_GET = (
    "apt-get",
    "-o",
    "DPkg::Lock::Timeout=300",
    # This option keeps dpkg in our process group, where our signals reach it.
    "-o",
    "Dpkg::Use-Pty=0",
)


class CannotInstall(Exception):
    """The packages are still missing; the message says why."""


def main(arguments: Sequence[str] | None = None, *, is_root: bool | None = None) -> int:
    """Run from the command line; the exit code is 1 if a package is still missing."""
    parser = argparse.ArgumentParser(description="Install missing system packages.")
    parser.add_argument("--list", type=Path, default=LIST, help="which command needs which package")
    parser.add_argument("--policy", type=Path, default=POLICY, help="where invoke-rc.d asks")
    parser.add_argument("--install", nargs="+", metavar="PACKAGE", help="install these, unasked")
    options = parser.parse_args(arguments)

    needed = [] if options.install else read_list(options.list.read_text(encoding="utf-8"))
    packages = options.install or missing_packages(needed)
    if not packages:
        return 0
    print(f"Installing system packages: {' '.join(packages)}", flush=True)
    try:
        if os.geteuid() == 0 if is_root is None else is_root:
            install(packages, policy=options.policy)
        else:
            install_through_sudo(packages, policy=options.policy)
        _require_all(needed)
    except CannotInstall as error:
        print(
            f"{error}. Install these system packages, then run again: {' '.join(packages)}",
            file=sys.stderr,
        )
        return 1
    return 0


def read_list(text: str) -> list[tuple[str, str]]:
    """Return the pairs of a command and its package."""
    needed: list[tuple[str, str]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        match words:
            case []:
                pass
            case [command, package]:
                needed.append((command, package))
            case _:
                raise SystemExit(f"Line {number} of the list is not `command package`: {line}")
    return needed


def missing_packages(needed: Iterable[tuple[str, str]]) -> list[str]:
    """Return the packages whose command is missing, each once."""
    missing = (package for command, package in needed if not _is_present(command))
    return list(dict.fromkeys(missing))


def _require_all(needed: Iterable[tuple[str, str]]) -> None:
    if packages := missing_packages(needed):
        raise CannotInstall(f"{' '.join(packages)} did not bring its command")


def _is_present(command: str) -> bool:
    if "/" in command:
        return bool(glob.glob(command))  # noqa: PTH207 - Path.glob takes no absolute pattern.
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *SYSTEM_PATH))
    return shutil.which(command, path=path) is not None


def install_through_sudo(packages: Sequence[str], *, policy: Path) -> None:
    """Run this program again as root through sudo, without asking for a password."""
    if shutil.which("sudo") is None:
        raise CannotInstall("We are not root, and there is no sudo")
    if subprocess.run(["sudo", "-n", "true"], check=False, capture_output=True).returncode:
        raise CannotInstall("We are not root, and sudo asks for a password")
    command = [sys.executable, __file__, "--policy", str(policy), "--install", *packages]
    if subprocess.run(["sudo", "-n", *command], check=False).returncode:
        raise CannotInstall("Installing through sudo failed")


def install(packages: Sequence[str], *, policy: Path) -> None:
    """Install with apt-get, as root, and start no daemon."""
    if shutil.which("apt-get") is None:
        raise CannotInstall("There is no apt-get here")
    with _signals_as_exceptions(), _no_daemon_starts(policy):
        if _run([*APT_GET, "update"]):
            # Try to install all the same: one broken repository fails the whole update, and the old
            # lists may be good enough.
            print("apt-get update failed; trying with the lists at hand.", file=sys.stderr)
        if _run([*APT_GET, "install", "-y", "--no-install-recommends", *packages]):
            raise CannotInstall("apt-get install failed")


def _run(command: Sequence[str]) -> int:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    process: subprocess.Popen[bytes] | None = None
    # Block signals until the process has started: an interrupt before `process` is assigned would
    # leave it running.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before),  # noqa: PLW1509 - no threads here
        )
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return process.wait()
    except BaseException:
        # Wait until the process has ended, because a package script that still runs could start its
        # daemon as soon as the policy is gone.
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.wait()
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _no_daemon_starts(policy: Path) -> Iterator[None]:
    """Forbid starting services inside the block.

    An existing policy is moved aside and later moved back, so that its content, owner, mode and
    times stay the same, and a link stays a link. If a run is killed outright, the next run cleans
    up.
    """
    aside = policy.with_name(f"{policy.name}.before-lockfast")
    directory = os.open(policy.parent, os.O_RDONLY)
    try:
        # Only one process at a time may do this, because the first process to finish lifts the ban.
        fcntl.flock(directory, fcntl.LOCK_EX)
        try:
            if not os.path.lexists(aside):
                _set_aside(policy, aside)
            policy.unlink(missing_ok=True)
            policy.write_text(FORBID, encoding="utf-8")
            policy.chmod(0o755)
            yield
        finally:
            policy.unlink(missing_ok=True)
            if os.path.lexists(aside):
                aside.rename(policy)
    finally:
        os.close(directory)


def _set_aside(policy: Path, aside: Path) -> None:
    is_ours = policy.is_file() and policy.read_bytes() == FORBID.encode()
    if os.path.lexists(policy) and not is_ours:
        policy.rename(aside)


@contextlib.contextmanager
def _signals_as_exceptions() -> Iterator[None]:
    """Leave the block with an exception on a signal that would otherwise end us immediately."""

    def leave(number: int, _frame: object) -> None:
        # Ignore further signals, because they must not interrupt the restoring of the policy.
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    sys.exit(main())
