"""Real bind mounts that only one process sees: no test changes the machine's own mounts."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

# The commands for root, for an ordinary user, who is root in a new user namespace, and with sudo
# for systems that forbid user namespaces.
WAYS = (["unshare", "-m"], ["unshare", "-Urm"], ["sudo", "-n", "unshare", "-m"])

MOUNT_AND_RUN = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'


def with_mounted(source: Path, target: Path) -> list[str]:
    """Return the start of a command for which the source is mounted at the target."""
    return [*_in_a_namespace(), "sh", "-c", MOUNT_AND_RUN, "sh", str(source), str(target)]


def without_proc() -> list[str]:
    """Return the start of a command that finds an empty /proc."""
    return [*_in_a_namespace(), "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]


@cache
def _in_a_namespace() -> list[str]:
    for way in WAYS:
        tried = [*way, "mount", "--bind", "/", "/"]
        try:
            if subprocess.run(tried, capture_output=True, check=False).returncode == 0:
                return way
        except FileNotFoundError:
            continue  # no such program, such as sudo in a container
    raise AssertionError("no mount namespace here: run the tests as root, or allow user namespaces")
