"""`lockfast advise`, and what the doctor reports about leases."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

import lockfast
from lockfast.cli.app import app


@pytest.fixture
def locks(cli):
    with lockfast.Locks(cli.url, label="worker") as one:
        yield one


def test_what_is_in_use_is_told_by_pattern_with_its_figures(cli, locks):
    with locks.lock("order:17", ttl=60), locks.lock("order:18", ttl=60):
        answer = cli.json("advise", "--for", "0.2", "--every", "0.1")

    assert set(answer) == {"store", "looks", "seconds", "advice"}
    assert answer["looks"] >= 2
    [one] = answer["advice"]
    assert (one["kind"], one["figures"]["pattern"]) == ("too_few", "order:*")
    assert one["figures"]["ttl"] == pytest.approx(60, rel=0.02)
    assert one["figures"]["source"] == "looks"


def test_only_names_with_the_prefix_are_watched(cli, locks):
    with locks.lock("order:17"), locks.lock("report"):
        shown = cli("advise", "rep", "--for", "0").stdout

    assert "looked once at" in shown
    assert "report" in shown
    assert "order" not in shown


def test_a_store_that_nobody_uses_has_no_advice(cli):
    done = cli("advise", "--for", "0")

    assert done.returncode == 0
    assert "no lock was in use" in done.stdout


def test_ctrl_c_ends_it_and_what_was_found_so_far_is_told(cli, locks, monkeypatch):
    def interrupted(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lockfast.cli.advise.pause", interrupted)
    with locks.lock("report"):
        done = CliRunner().invoke(app, ["advise", "--for", "3600", "--url", cli.url])

    assert done.exit_code == 0
    assert "looked once at" in done.output
    assert "report" in done.output


def test_the_doctor_tells_of_a_ttl_that_is_an_outage(cli, locks):
    with locks.lock("import:2026-11-17", ttl=7200):
        found = {one["subject"]: one for one in cli.json("doctor")["findings"]}

    assert "is held with a ttl of 2 h" in found["import:*"]["message"]
    assert found["import:*"]["remedy"] == "look closer: lockfast advise"
    assert found["import:*"]["level"] == "note"
