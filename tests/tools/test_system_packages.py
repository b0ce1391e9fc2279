"""Missing packages are installed without prompts, and the machine is otherwise unchanged."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import system_packages

# A fake apt-get: records how it was called and what the policy says about starting services, then
# does what the test asks of it.
APT_GET = """\
#!/bin/sh
echo "apt-get $*" >> "{log}"
case "$*" in *install*)
    "{policy}" && echo "may start" >> "{log}" || echo "policy says $?" >> "{log}"
    echo "frontend $DEBIAN_FRONTEND" >> "{log}"
    {script}
esac
"""


class Machine:
    """A simulated machine in a directory: its PATH, its policy, and a log of calls."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.bin = directory / "bin"
        self.bin.mkdir()
        self.policy = directory / "policy-rc.d"
        self.log = directory / "log"
        self.log.touch()
        self.list = directory / "list.txt"
        self.list.write_text("frobnicate-server frobnicate\n")

    def program(self, name: str, text: str) -> None:
        path = self.bin / name
        path.write_text(text)
        path.chmod(0o755)

    def apt_get(self, script: str = "") -> None:
        text = APT_GET.format(log=self.log, policy=self.policy, script=script)
        self.program("apt-get", text)

    def brings(self, command: str) -> str:
        return f'printf "#!/bin/sh\\n" > "{self.bin}/{command}"; chmod +x "{self.bin}/{command}"'

    def run(self, *, is_root: bool = True) -> int:
        arguments = ["--list", str(self.list), "--policy", str(self.policy)]
        return system_packages.main(arguments, is_root=is_root)

    @property
    def calls(self) -> list[str]:
        return self.log.read_text().splitlines()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine whose apt-get installs the missing command."""
    machine = Machine(tmp_path)
    # The tools that the fakes themselves use, and nothing that could really install.
    for name in ("sh", "chmod", "sleep"):
        (machine.bin / name).symlink_to(Path("/bin") / name)
    monkeypatch.setenv("PATH", str(machine.bin))
    monkeypatch.setattr(system_packages, "SYSTEM_PATH", ())
    machine.apt_get(machine.brings("frobnicate-server"))
    return machine


def test_nothing_is_called_when_nothing_is_missing(machine: Machine) -> None:
    machine.program("frobnicate-server", "")

    code = machine.run()

    assert code == 0
    assert machine.calls == []


def test_a_missing_package_is_installed_without_questions_and_without_a_daemon(
    machine: Machine,
) -> None:
    apt_get = "apt-get -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0"

    code = machine.run()

    assert code == 0
    assert machine.calls == [
        f"{apt_get} update",
        f"{apt_get} install -y --no-install-recommends frobnicate",
        "policy says 101",
        "frontend noninteractive",
    ]
    assert not os.path.lexists(machine.policy)


def test_a_second_run_makes_no_call(machine: Machine) -> None:
    machine.run()
    machine.log.write_text("")

    code = machine.run()

    assert code == 0
    assert machine.calls == []


def test_a_failed_update_still_tries_the_lists_at_hand(machine: Machine) -> None:
    machine.program(
        "apt-get",
        f'#!/bin/sh\ncase "$*" in *update*) exit 100;; esac\n{machine.brings("frobnicate-server")}',
    )

    assert machine.run() == 0


# The policy is restored.


@pytest.mark.parametrize("script", [":", "exit 100"], ids=["success", "failure"])
def test_a_policy_that_was_there_comes_back_exactly(machine: Machine, script: str) -> None:
    machine.apt_get(script)
    machine.policy.write_text("#!/bin/sh\nexit 104\n")
    machine.policy.chmod(0o750)
    before = machine.policy.stat()

    machine.run()

    after = machine.policy.stat()
    assert "policy says 101" in machine.calls
    assert machine.policy.read_text() == "#!/bin/sh\nexit 104\n"
    assert stat.S_IMODE(after.st_mode) == 0o750
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert [path.name for path in machine.directory.glob("policy*")] == ["policy-rc.d"]


def test_a_policy_that_is_a_link_stays_one(machine: Machine) -> None:
    machine.policy.symlink_to("nowhere")

    machine.run()

    assert "policy says 101" in machine.calls
    assert os.readlink(machine.policy) == "nowhere"  # noqa: PTH115 - the bare text of the link.


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_puts_the_policy_back_and_ends_apt_get(
    machine: Machine, number: signal.Signals
) -> None:
    machine.apt_get(f"echo $$ > {machine.directory}/pid; sleep 600 & wait")
    machine.policy.write_text("theirs")
    program = (
        "import pathlib, sys; sys.path.insert(0, sys.argv[1]); import system_packages;"
        "system_packages.install(['frobnicate'], policy=pathlib.Path(sys.argv[2]))"
    )
    tools = Path(system_packages.__file__).parent
    process = subprocess.Popen([sys.executable, "-c", program, tools, machine.policy])
    pid_file = machine.directory / "pid"
    wait_until(lambda: pid_file.exists() and pid_file.read_text().endswith("\n"))

    process.send_signal(number)

    assert process.wait(timeout=30) == 128 + number
    assert machine.policy.read_text() == "theirs"
    wait_until(lambda: not is_there(int(pid_file.read_text())))  # reaped by its new parent


def test_a_signal_while_apt_get_begins_ends_it_too(machine: Machine) -> None:
    """apt-get is already running, but its pid has not been assigned yet."""
    machine.apt_get(f"echo $$ > {machine.directory}/pid; sleep 600 & wait")
    program = """
import os, pathlib, signal, subprocess, sys, time
sys.path.insert(0, sys.argv[1])
import system_packages
class Struck(subprocess.Popen):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        if "install" in self.args:
            pid = pathlib.Path(sys.argv[3])
            while not (pid.exists() and pid.read_text()):
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGTERM)
subprocess.Popen = Struck
system_packages.install(["frobnicate"], policy=pathlib.Path(sys.argv[2]))
"""
    tools, pid_file = Path(system_packages.__file__).parent, machine.directory / "pid"
    process = subprocess.Popen([sys.executable, "-c", program, tools, machine.policy, pid_file])

    assert process.wait(timeout=30) == 128 + signal.SIGTERM
    wait_until(lambda: not is_there(int(pid_file.read_text())))


@pytest.mark.parametrize("theirs", [None, "theirs"])
def test_what_a_killed_run_left_is_cleaned_up_by_the_next(
    machine: Machine, theirs: str | None
) -> None:
    machine.policy.write_text(system_packages.FORBID)
    if theirs is not None:
        (machine.directory / "policy-rc.d.before-lockfast").write_text(theirs)

    machine.run()

    assert "policy says 101" in machine.calls
    assert (machine.policy.read_text() if machine.policy.exists() else None) == theirs


# Where it cannot install.


def without_apt(machine: Machine) -> None:
    (machine.bin / "apt-get").unlink()


def with_a_failing_apt(machine: Machine) -> None:
    machine.apt_get("exit 100")


def with_a_package_that_brings_nothing(machine: Machine) -> None:
    machine.apt_get()


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (without_apt, "There is no apt-get here"),
        (with_a_failing_apt, "apt-get install failed"),
        (with_a_package_that_brings_nothing, "frobnicate did not bring its command"),
    ],
)
def test_it_stops_with_the_list_of_what_to_install(
    machine: Machine,
    cause: Callable[[Machine], None],
    reason: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cause(machine)

    code = machine.run()

    assert code == 1
    assert capsys.readouterr().err == (
        f"{reason}. Install these system packages, then run again: frobnicate\n"
    )


@pytest.mark.parametrize(
    ("sudo", "reason"),
    [
        (None, "We are not root, and there is no sudo"),
        ("#!/bin/sh\nexit 1\n", "We are not root, and sudo asks for a password"),
        (
            '#!/bin/sh\ncase "$*" in "-n true") ;; *) exit 1;; esac\n',
            "Installing through sudo failed",
        ),
    ],
)
def test_without_root_and_sudo_it_stops_with_the_list(
    machine: Machine, sudo: str | None, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if sudo is not None:
        machine.program("sudo", sudo)

    code = machine.run(is_root=False)

    assert code == 1
    assert capsys.readouterr().err == (
        f"{reason}. Install these system packages, then run again: frobnicate\n"
    )
    assert machine.calls == []


def test_without_root_it_goes_through_sudo_without_a_password(machine: Machine) -> None:
    machine.program(
        "sudo", f'#!/bin/sh\necho "sudo $*" >> {machine.log}\n{machine.brings("frobnicate-server")}'
    )

    code = machine.run(is_root=False)

    assert code == 0
    again = f"{sys.executable} {system_packages.__file__}"
    assert machine.calls == [
        "sudo -n true",
        f"sudo -n {again} --policy {machine.policy} --install frobnicate",
    ]


# The list.


def test_a_package_is_asked_for_once_and_a_path_may_have_any_version(machine: Machine) -> None:
    present = machine.directory / "lib" / "15" / "serve"
    present.parent.mkdir(parents=True)
    present.touch()
    machine.list.write_text(
        f"# why\n\n{machine.directory}/lib/*/serve  present  # so\n"
        f"{machine.directory}/lib/*/dump  absent\n{machine.directory}/lib/*/load  absent\n"
    )

    missing = system_packages.missing_packages(system_packages.read_list(machine.list.read_text()))

    assert missing == ["absent"]


def test_a_line_that_is_no_pair_is_refused() -> None:
    with pytest.raises(SystemExit, match="Line 2 of the list is not `command package`: redis"):
        system_packages.read_list("# so\nredis\n")


def test_the_list_of_the_project_can_be_read() -> None:
    system_packages.read_list(system_packages.LIST.read_text(encoding="utf-8"))


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
