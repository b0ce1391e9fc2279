"""Which file systems an embedded database must not be put on, and where it lives by default."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.errors import ConfigurationError

_NETWORK = frozenset(
    {
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "davfs",
        "gfs",
        "gfs2",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "ocfs2",
        "orangefs",
        "pvfs2",
        "smb2",
        "smb3",
        "smbfs",
        "virtiofs",
    }
)


def default_path() -> Path:
    """Return the file that the processes of one user on one machine share."""
    state = os.environ.get("XDG_STATE_HOME") or ""
    # The XDG rules say that a relative path is to be ignored.
    root = Path(state) if os.path.isabs(state) else _home() / ".local" / "state"  # noqa: PTH117
    return root / "holdfast" / "locks.db"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError as error:
        # A container that runs under a number that nobody entered, with an empty environment.
        raise ConfigurationError(
            "this user has no home directory for the default file; set HOME or XDG_STATE_HOME, "
            "or name a file: sqlite:///path/to/locks.db"
        ) from error


def refuse_network(directory: Path, *, mounts: str | None = None) -> None:
    """Raise if the directory is on a network or FUSE file system.

    SQLite's WAL needs memory that all processes share, and file locks that tell the
    truth. On such file systems two machines could each hold the lock.
    """
    kind = kind_of(directory, mounts=mounts)
    if kind in _NETWORK or kind.startswith("fuse"):
        raise ConfigurationError(
            f"{directory} is on a {kind} file system, where SQLite cannot exclude other "
            "machines; choose a local path (sqlite:///…) or a server, such as redis://"
        )


def kind_of(directory: Path, *, mounts: str | None = None) -> str:
    """Return the type of the file system under the directory, or "" if it is not told."""
    if mounts is None:
        try:
            mounts = Path("/proc/self/mountinfo").read_text(errors="replace")
        except OSError:
            return ""
    real = str(directory.resolve())
    best, kind = "", ""
    for line in mounts.splitlines():
        fields, separator, rest = line.partition(" - ")
        parts = fields.split(" ")
        if not separator or len(parts) < 5:  # noqa: PLR2004 - proc(5): the mount point is fifth
            continue
        point = parts[4].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
        is_under = real == point or real.startswith(point.rstrip("/") + "/")
        # Of two mounts on one point the later is on top.
        if is_under and len(point) >= len(best):
            best, kind = point, rest.split(" ")[0]
    return kind


def is_container() -> bool:
    """Whether this looks like a container, whose files other containers do not see."""
    return (
        Path("/.dockerenv").exists()
        or Path("/run/.containerenv").exists()
        or "KUBERNETES_SERVICE_HOST" in os.environ
    )
