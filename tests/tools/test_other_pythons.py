"""Other interpreters are found wherever they are, and used only if they run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import other_pythons
from other_pythons import Python, ask, candidates, others


@pytest.fixture
def interpreter(tmp_path):
    """Write a program that answers as an interpreter would, or that runs the given script."""

    def make(path: str, *version: int, name: str = "cpython", script: str = "") -> Path:
        answer = json.dumps([name, version, "final"])
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        told = script or f"echo '{answer}'"
        file.write_text(f"#!/bin/sh\n{told}\n")
        file.chmod(0o755)
        return file

    return make


def found(tmp_path: Path) -> list[Python]:
    path = f"{tmp_path}/shims:{tmp_path}/bin:{tmp_path}/not there"
    return others(ask(candidates({"HOME": str(tmp_path), "PATH": path})), ours=(3, 11))


def test_they_are_found_on_the_path_and_among_the_versions_of_pyenv(interpreter, tmp_path):
    on_path = interpreter("bin/python3.12", 3, 12, 4)
    of_pyenv = interpreter(".pyenv/versions/3.13.0/bin/python", 3, 13, 0)

    assert [one.path for one in found(tmp_path)] == [on_path, of_pyenv]


def test_a_shim_that_refuses_does_not_hide_what_is_behind_it(interpreter, tmp_path):
    interpreter("shims/python3.12", script="echo 'command not found' >&2; exit 127")
    interpreter("shims/python3.13", script="echo 'not what was asked for'")
    behind = interpreter("bin/python3.12", 3, 12, 1)

    assert [one.path for one in found(tmp_path)] == [behind]


def test_the_newest_of_each_minor_version_is_taken(interpreter, tmp_path):
    for version in ("3.12.1", "3.12.10", "3.12.9"):
        numbers = map(int, version.split("."))
        interpreter(f".pyenv/versions/{version}/bin/python", *numbers)

    assert [one.version for one in found(tmp_path)] == [(3, 12, 10)]


def test_our_own_version_and_what_is_too_old_or_another_kind_is_left_out(interpreter, tmp_path):
    interpreter("bin/python3.10", 3, 10, 1)
    interpreter("bin/python3.11", 3, 11, 9)
    interpreter("bin/python3.12", 3, 12, 1, name="pypy")

    assert found(tmp_path) == []


def test_without_another_python_there_is_nothing_to_do(monkeypatch, capsys):
    monkeypatch.setattr(other_pythons, "candidates", lambda _: [])

    assert other_pythons.main([]) == 0
    assert "no other Python" in capsys.readouterr().out


def test_one_that_fails_fails_the_run_and_shows_all_it_said(
    interpreter, tmp_path, monkeypatch, capsys
):
    one = Python((3, 12, 1), interpreter("bin/python3.12", 3, 12, 1))
    worse = interpreter("environment", script="echo what went wrong; echo 1 failed; exit 1")
    monkeypatch.setattr(other_pythons, "candidates", lambda _: [])
    monkeypatch.setattr(other_pythons, "others", lambda _: [one])
    monkeypatch.setattr(other_pythons, "set_up", lambda _: worse)

    assert other_pythons.main(["tests/core"]) == 1
    assert "Python 3.12.1: FAILED\nwhat went wrong\n1 failed" in capsys.readouterr().out
