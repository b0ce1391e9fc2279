"""For a server that is not installed, the error names the package that contains it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import ClassVar

import pytest
from servers.echo import EchoServer

import lockfast_challenge.servers
import system_packages
from lockfast_challenge.servers import server
from lockfast_challenge.servers.server import CannotStart, Server, missing


def kinds_of(kind: type[Server]) -> Iterator[type[Server]]:
    for one in kind.__subclasses__():
        yield one
        yield from kinds_of(one)


def test_a_program_that_is_not_there_is_named_with_its_package():
    class Rare(EchoServer):
        packages: ClassVar = {"frobnicate-server": "frobnicate"}

    with pytest.raises(CannotStart) as told:
        Rare().start()

    assert str(told.value) == (
        "frobnicate-server cannot be found: install the Debian package frobnicate"
    )


def test_a_file_may_have_any_version():
    assert missing({"/proc/*/status": "procps"}) == ""
    assert "libfrob" in missing({"/usr/share/*/frob.jar": "libfrob"})


def test_only_linux_can_start_servers(monkeypatch):
    monkeypatch.setattr(server.sys, "platform", "darwin")

    assert "Linux alone" in missing({})


def test_every_package_is_one_that_the_tests_install():
    for module in pkgutil.iter_modules(lockfast_challenge.servers.__path__):
        importlib.import_module(f"lockfast_challenge.servers.{module.name}")
    listed = system_packages.read_list(system_packages.LIST.read_text(encoding="utf-8"))

    shipped = [one for one in kinds_of(Server) if one.__module__.startswith("lockfast_challenge.")]

    named = {pair for one in shipped for pair in one.packages.items()}
    assert len(named) >= 6
    assert named <= set(listed)
