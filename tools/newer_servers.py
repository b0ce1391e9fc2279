"""Download servers from other suites of Debian into the virtual environment, installing nothing.

The newest servers are in no release that the tests run on, so they come from sid; a line of the
list may name another suite after a slash, as in `valkey-server/trixie`. A separate apt, with its
own configuration, lists and cache, resolves and downloads a package and its dependencies. The
archives are unpacked, and each program gets a script that runs it with the loader and the C library
that were downloaded with it. This needs no root and does not touch the system's packages, and
`lockfast_challenge.servers` finds the programs below `sys.prefix`:

    .venv/servers/mysql-server-core/bin/mysqld    the script
    .venv/servers/mysql-server-core/root/         the unpacked files

A downloaded package stays until `make clean`. If all packages are there, nothing is run. To get a
newer version of a package, delete its folder.

Standard library only: this runs before anything else is installed.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from system_packages import read_list

LIST = Path(__file__).with_suffix(".txt")
SUITE = "sid"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

ATTEMPTS = 3
"""Number of attempts, each with fresh lists: a mirror that is being updated may list packages that
are gone."""

LEFT_OUT = ("doc", "info", "locale", "man", "bash-completion", "icons")
"""Folders of /usr/share that no program reads; they are a third of all files."""

SCRIPT = """\
#!/bin/sh
# The loader and the libraries have to be of one make, and the system's are older.
root=$(dirname "$(dirname "$(readlink -f "$0")")")/root
exec "$root"/{loader} --argv0 "$0" --library-path "$root"/{libraries} "$root"/{program} "$@"
"""


class CannotDownload(Exception):
    """A package is still missing; the message says why."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; the exit code is 1 if a package is still missing."""
    parser = argparse.ArgumentParser(description="Download missing servers from Debian.")
    parser.add_argument("--list", type=Path, default=LIST, help="which program is in which package")
    parser.add_argument("--folder", type=Path, default=Path(sys.prefix) / "servers", help="where")
    options = parser.parse_args(arguments)

    packages: dict[str, list[str]] = {}
    for program, package in read_list(options.list.read_text(encoding="utf-8")):
        packages.setdefault(package, []).append(program)
    try:
        download_missing(packages, options.folder)
    except CannotDownload as error:
        again = shlex.join([sys.executable, *sys.orig_argv[1:]])
        print(f"{error}. Run this again: {again}", file=sys.stderr)
        return 1
    return 0


def download_missing(packages: Mapping[str, Sequence[str]], folder: Path) -> None:
    """Put each missing package and its programs into the folder; if none is missing, do nothing."""
    if not _missing(packages, folder):
        return
    folder.mkdir(parents=True, exist_ok=True)
    with _one_at_a_time(folder / ".lock"):
        for package in _missing(packages, folder):  # another process may have been faster
            print(
                f"Downloading {package} from Debian's {_suite(package)} into {folder}", flush=True
            )
            # The folder is renamed when it is complete, so that a killed run leaves nothing that
            # looks complete.
            begun = folder / f".{_name(package)}.begun"
            shutil.rmtree(begun, ignore_errors=True)
            begun.mkdir()
            download(package, begun)
            unpack(begun)
            for program in packages[package]:
                write_script(program, begun)
            shutil.rmtree(folder / _name(package), ignore_errors=True)
            begun.rename(folder / _name(package))


def _missing(packages: Mapping[str, Sequence[str]], folder: Path) -> list[str]:
    return [
        package
        for package, programs in packages.items()
        if not all((folder / _name(package) / "bin" / one).exists() for one in programs)
    ]


def _name(package: str) -> str:
    """Return the name of a package's folder."""
    return package.replace("/", "-")


@contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _suite(package: str) -> str:
    """Return the suite that a package comes from."""
    return package.partition("/")[2] or SUITE


def download(package: str, folder: Path) -> None:
    """Download a package and all its dependencies into `folder/apt/archives`."""
    for program in ("apt-get", "apt-config", "dpkg-deb", "tar"):
        if shutil.which(program) is None:
            raise CannotDownload(f"{package} is downloaded by {program}, which is not here")
    if not KEYRING.exists():
        raise CannotDownload(
            f"{package} cannot be checked without {KEYRING} of the package debian-archive-keyring"
        )
    name, suite = package.partition("/")[0], _suite(package)
    environment = {**os.environ, "APT_CONFIG": str(configure(folder / "apt", suite))}
    install = ("-y", "--no-install-recommends", "--download-only", "install", name)
    for _ in range(ATTEMPTS):
        if all(_succeeds(["apt-get", *words], environment) for words in (("update",), install)):
            return
    raise CannotDownload(f"{package} could not be downloaded from Debian's {suite}")


def configure(folder: Path, suite: str) -> Path:
    """Write the configuration of an apt that uses only one suite and keeps everything in `folder`.

    The mirror and the network settings, such as a proxy, come from the machine's own configuration.
    """
    for needed in ("state/lists/partial", "archives/partial"):
        (folder / needed).mkdir(parents=True)
    # Pretend that nothing is installed, so that all dependencies are downloaded.
    (folder / "status").touch()
    (folder / "sources").write_text(f"deb [signed-by={KEYRING}] {_mirror()} {suite} main\n")
    settings = {
        "Dir::State": folder / "state",
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder,
        "Dir::Cache::archives": folder / "archives",
        "Dir::Etc::sourcelist": folder / "sources",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::main": "/dev/null",
        "Dir::Etc::parts": "/dev/null",  # the system's hooks would clean the system's cache
        "Dir::Etc::preferencesparts": "/dev/null",
        "Dir::Etc::preferences": "/dev/null",
        "APT::Sandbox::User": "root",  # other users may not be able to read the working copy
        "Acquire::Languages": "none",
        # Accept expired lists: a mirror that lags has older versions, which are good enough, and
        # its lists are signed as well.
        "Acquire::Check-Valid-Until": "false",
        "Acquire::Retries": "3",
    }
    path = folder / "apt.conf"
    lines = [f'{key} "{value}";\n' for key, value in settings.items()]
    path.write_text("".join([*_network(), *lines]))
    return path


def _mirror() -> str:
    """Return the mirror of the machine's own Debian packages."""
    wanted = ["Created-By: Packages", "Component: main", "Origin: Debian"]
    targets = _output_of(["apt-get", "indextargets", "--format", "$(REPO_URI)", *wanted])
    sites = [line for line in targets.splitlines() if "security" not in line]
    if not sites:
        raise CannotDownload("apt knows no Debian mirror on this machine: add one to its sources")
    return sites[0]


def _network() -> list[str]:
    """Return the network settings of the machine's apt configuration."""
    dump = _output_of(["apt-config", "dump"])
    kept = re.compile(r"Acquire::(https?|Force\w+)::?\S* |Acquire::Force\w+ ", re.IGNORECASE)
    return [line for line in dump.splitlines(keepends=True) if kept.match(line)]


def unpack(folder: Path) -> None:
    """Unpack all archives into `folder/root`, and delete them with the apt folder."""
    root, apt = folder / "root", folder / "apt"
    root.mkdir()
    # As ordinary files of the current user: no other owners, and no setuid programs.
    extract = ["tar", "--extract", "--keep-directory-symlink", "--no-same-owner"]
    extract += ["--no-same-permissions", f"--directory={root}"]
    extract += [f"--exclude=./usr/share/{one}" for one in LEFT_OUT]
    for archive in sorted((apt / "archives").glob("*.deb")):
        with subprocess.Popen(
            ["dpkg-deb", "--fsys-tarfile", str(archive)], stdout=subprocess.PIPE
        ) as opened:
            unpacked = subprocess.run(extract, stdin=opened.stdout, check=False)
        if opened.returncode or unpacked.returncode:
            raise CannotDownload(f"{archive.name} could not be unpacked")
    shutil.rmtree(apt)


def write_script(name: str, folder: Path) -> None:
    """Write the script that runs an unpacked program, even after the folder has moved."""
    root = folder / "root"
    script = SCRIPT.format(
        program=_only(root, f"usr/*bin/{name}"),
        loader=_only(root, "usr/lib*/ld-linux*.so.*"),
        libraries=_only(root, "usr/lib/*-linux-gnu*"),
    )
    path = folder / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(script)
    path.chmod(0o755)


def _only(root: Path, pattern: str) -> str:
    found = sorted(root.glob(pattern))
    if not found:
        raise CannotDownload(f"what was downloaded has no {pattern}")
    return str(found[0].relative_to(root))


def _succeeds(command: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Return whether the command succeeds; print its output only if it fails."""
    done = subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        print(f"{shlex.join(command)}:\n{done.stdout}", file=sys.stderr)
    return done.returncode == 0


def _output_of(command: Sequence[str]) -> str:
    """Return the command's output, or "" if it fails, since each caller has a default."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    return done.stdout if done.returncode == 0 else ""


if __name__ == "__main__":
    sys.exit(main())
