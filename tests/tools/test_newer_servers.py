"""Servers from other suites of Debian are downloaded once, and the system is not changed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import newer_servers

# A fake apt-get: records how it was called, and delivers the archive as the test wants.
APT_GET = """\
#!/bin/sh
echo "apt-get $*" >> "{log}"
case "$*" in
*indextargets*) echo http://mirror.test/debian/; echo http://mirror.test/debian-security/;;
*install*) {script};;
esac
"""

# A fake loader: prints which script asked it to run which program, with which arguments.
LOADER = '#!/bin/sh\necho "$2 runs $(cat "$5") with $6 and $7"\n'


class Machine:
    """A simulated machine in a directory: its apt-get, and the folder for servers."""

    def __init__(self, directory: Path) -> None:
        self.bin = directory / "bin"
        self.bin.mkdir()
        self.log = directory / "log"
        self.log.touch()
        self.list = directory / "list.txt"
        self.list.write_text("frobnicated frobnicate\n")
        self.folder = directory / "a clone" / "servers"
        self.archive = directory / "frobnicate_1_all.deb"
        self._pack(directory / "packed")

    def _pack(self, tree: Path) -> None:
        files = {
            "DEBIAN/control": "Package: frobnicate\nVersion: 1\nArchitecture: all\n"
            "Maintainer: nobody <nobody@example.org>\nDescription: none\n",
            "usr/sbin/frobnicated": "frobnicated",
            "usr/lib64/ld-linux-x86-64.so.2": LOADER,
            "usr/lib/x86_64-linux-gnu/libc.so.6": "",
            "usr/share/doc/frobnicate/copyright": "",
        }
        for name, text in files.items():
            path = tree / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o644 if name.startswith("DEBIAN") else 0o4755)
        (tree / "DEBIAN").chmod(0o755)
        packed = ["dpkg-deb", "--build", "--root-owner-group", tree, self.archive]
        subprocess.run(packed, check=True, stdout=subprocess.DEVNULL)

    def apt_get(self, script: str) -> None:
        path = self.bin / "apt-get"
        path.write_text(APT_GET.format(log=self.log, script=script))
        path.chmod(0o755)

    @property
    def brings(self) -> str:
        return f'cp "{self.archive}" "$(dirname "$APT_CONFIG")/archives"'

    @property
    def arguments(self) -> list[str]:
        return ["--list", str(self.list), "--folder", str(self.folder)]

    def run(self) -> int:
        return newer_servers.main(self.arguments)

    def start(self) -> subprocess.Popen[str]:
        command = [sys.executable, newer_servers.__file__, *self.arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    @property
    def calls(self) -> list[str]:
        return self.log.read_text().splitlines()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine whose apt-get delivers the package."""
    machine = Machine(tmp_path)
    machine.apt_get(machine.brings)
    monkeypatch.setenv("PATH", f"{machine.bin}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(newer_servers, "KEYRING", tmp_path)
    return machine


def test_a_program_runs_by_the_loader_that_came_with_it(machine: Machine) -> None:
    program = machine.folder / "frobnicate" / "bin" / "frobnicated"

    code = machine.run()

    assert code == 0
    said = subprocess.check_output([program, "these words", "more"], text=True)
    assert said == f"{program} runs frobnicated with these words and more\n"


def test_a_package_may_come_from_another_suite(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two suites may have two versions of one package, so each has a folder of its own."""
    machine.list.write_text("frobnicated frobnicate\nfrobnicated frobnicate/trixie\n")
    suites: list[str] = []
    configure = newer_servers.configure
    monkeypatch.setattr(
        newer_servers,
        "configure",
        lambda folder, suite: suites.append(suite) or configure(folder, suite),
    )

    code = machine.run()

    assert code == 0
    assert suites == ["sid", "trixie"]
    assert [call for call in machine.calls if "install" in call and "/" in call] == []
    for name in ("frobnicate", "frobnicate-trixie"):
        assert (machine.folder / name / "bin" / "frobnicated").exists()


def test_what_was_downloaded_is_kept_and_needs_no_call(machine: Machine) -> None:
    machine.run()
    machine.log.write_text("")

    code = machine.run()

    assert code == 0
    assert machine.calls == []


def test_of_the_machine_it_takes_the_mirror_and_touches_nothing_else(tmp_path: Path) -> None:
    """Every directory that apt would write to is inside our folder."""
    machine = Machine(tmp_path)
    machine.apt_get("")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{machine.bin}{os.pathsep}{os.environ['PATH']}")
        configured = newer_servers.configure(tmp_path / "apt", "sid")

    environment = {**os.environ, "APT_CONFIG": str(configured)}
    keys = ("Dir::State/d", "Dir::State::lists/d", "Dir::State::status/f", "Dir::Cache/d")
    keys += ("Dir::Cache::archives/d", "Dir::Etc::sourcelist/f")
    words = [word for key in keys for word in ("x", key)]
    told = subprocess.check_output(["apt-config", "shell", *words], text=True, env=environment)
    assert len(told.splitlines()) == len(keys)
    assert all(line.startswith(f"x='{tmp_path}/apt/") for line in told.splitlines()), told
    sources = (tmp_path / "apt" / "sources").read_text()
    assert sources.endswith("] http://mirror.test/debian/ sid main\n")


def test_unpacked_files_carry_no_rights_and_no_documentation(machine: Machine) -> None:
    machine.run()

    files = [one for one in machine.folder.rglob("*") if one.is_file()]
    assert len(files) >= 4
    assert [one for one in files if one.stat().st_mode & 0o6000] == []
    assert [one for one in files if "doc" in one.parts or one.suffix == ".deb"] == []


def test_two_that_run_at_once_download_once(machine: Machine) -> None:
    machine.apt_get(f"sleep 0.5; {machine.brings}")

    both = [machine.start(), machine.start()]

    ended = [(one.communicate(timeout=120), one.returncode) for one in both]
    assert [code for _, code in ended] == [0, 0], ended
    assert sum(" install " in call for call in machine.calls) == 1


def test_a_run_that_was_killed_leaves_nothing_that_looks_complete(machine: Machine) -> None:
    begun = machine.folder / ".frobnicate.begun" / "bin"
    begun.mkdir(parents=True)
    (begun / "frobnicated").touch()

    assert machine.run() == 0

    assert not begun.exists()
    assert (machine.folder / "frobnicate" / "bin" / "frobnicated").exists()


def test_a_mirror_that_is_being_updated_is_asked_again(machine: Machine) -> None:
    machine.apt_get(
        f'[ -e "{machine.bin}/late" ] && {machine.brings} || ! : > "{machine.bin}/late"'
    )

    assert machine.run() == 0


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exit 100", "frobnicate could not be downloaded from Debian's sid"),
        (
            'echo no > "$(dirname "$APT_CONFIG")/archives/frobnicate.deb"',
            "frobnicate.deb could not be unpacked",
        ),
        (":", "what was downloaded has no usr/*bin/frobnicated"),
    ],
)
def test_a_failed_download_says_how_to_repeat_it(
    machine: Machine, script: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.apt_get(script)

    code = machine.run()

    assert code == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith(f"{reason}. Run this again: {sys.executable} ")
    assert not (machine.folder / "frobnicate").exists()


def test_a_machine_without_apt_says_so(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    assert machine.run() == 1

    assert "frobnicate is downloaded by apt-get, which is not here" in capsys.readouterr().err


def test_the_list_of_the_project_can_be_read() -> None:
    newer_servers.read_list(newer_servers.LIST.read_text(encoding="utf-8"))
