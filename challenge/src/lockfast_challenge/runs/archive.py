"""The record of a run, kept in a folder so that the run can be judged again.

The diaries of the clients are in the folder already, as the clients wrote them; everything else is
in one file.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from lockfast_challenge.history import read
from lockfast_challenge.outcome import (
    ClockMove,
    Exemption,
    Exit,
    Recorded,
    Setting,
    Strike,
    Write,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lockfast_challenge.history import HistoryEvent

RUN_FILE = "run.json"


class KeptAlready(ValueError):
    """The folder holds another run, whose diaries would be mistaken for those of this run."""


def prepare_folder(folder: Path) -> None:
    """Create the folder of a run; refuse a folder that holds another run."""
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / RUN_FILE).exists() or any(folder.glob("*.jsonl")):
        raise KeptAlready(
            f"{folder} holds the history of another run: name a new folder, or empty this one"
        )


def keep(
    recorded: Mapping[str, Recorded], *, setting: Setting, folder: Path, cut_short: str = ""
) -> None:
    """Write everything about each name that the diaries do not contain."""
    names = {name: asdict(replace(one, events=())) for name, one in recorded.items()}
    (folder / RUN_FILE).write_text(
        json.dumps({"setting": asdict(setting), "cut_short": cut_short, "names": names}),
        encoding="utf-8",
    )


def kept(folder: Path) -> tuple[Setting, dict[str, Recorded], str]:
    """Return the setting, the record of each name with its events in order, and what cut it short.

    The last one is empty for a run that was not cut short.
    """
    run = json.loads((folder / RUN_FILE).read_text(encoding="utf-8"))
    events: dict[str, list[HistoryEvent]] = {name: [] for name in run["names"]}
    for path in sorted(folder.glob("*.jsonl")):
        for event in read(path.read_text(encoding="utf-8").splitlines()):
            events[event.name].append(event)
    recorded = {
        name: Recorded(
            **fields
            | {
                "events": sorted(events[name], key=lambda event: event.at),
                "writes": [Write(**one) for one in fields["writes"]],
                "strikes": [_strike(one) for one in fields["strikes"]],
                "exemptions": [Exemption(**one) for one in fields["exemptions"]],
                "exits": [Exit(**one) for one in fields["exits"]],
            }
        )
        for name, fields in run["names"].items()
    }
    setting = run["setting"]
    lists = {key: tuple(setting[key]) for key in ("faults", "workloads")}
    return Setting(**setting | lists), recorded, run["cut_short"]


def _strike(fields: dict[str, Any]) -> Strike:
    moves = tuple(ClockMove(**one) for one in fields.get("clock_moves", ()))
    return Strike(**fields | {"clock_moves": moves})
