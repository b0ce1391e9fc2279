"""What a run recorded, kept in a folder, so that it can be judged again.

The diaries of the clients are there already, each as it was written; the rest is one file.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from lockfast.challenge.history import read
from lockfast.challenge.outcome import Setting, Strike, Write
from lockfast.challenge.recorded import Exit, Recorded

if TYPE_CHECKING:
    from pathlib import Path

REST = "run.json"


class KeptAlready(ValueError):
    """A folder in which another run was kept: its diaries would be taken for those of this one."""


def made_for_one(folder: Path) -> None:
    """Make the folder of a run; refuse one that holds what another run left."""
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / REST).exists() or any(folder.glob("*.jsonl")):
        raise KeptAlready(
            f"{folder} holds the history of another run: name a new folder, or empty this one"
        )


def keep(recorded: Recorded, *, setting: Setting, folder: Path) -> None:
    """Write down all that the diaries do not say."""
    said = asdict(replace(recorded, events=()))
    (folder / REST).write_text(json.dumps({"setting": asdict(setting), **said}), encoding="utf-8")


def kept(folder: Path) -> tuple[Setting, Recorded]:
    """Return what was run, and what was recorded, events by their time."""
    said = json.loads((folder / REST).read_text(encoding="utf-8"))
    setting = said.pop("setting")
    events = [
        event
        for path in sorted(folder.glob("*.jsonl"))
        for event in read(path.read_text(encoding="utf-8").splitlines())
    ]
    said |= {
        "events": sorted(events, key=lambda event: event.at),
        "writes": [Write(**one) for one in said["writes"]],
        "strikes": [Strike(**one) for one in said["strikes"]],
        "exits": [Exit(**one) for one in said["exits"]],
    }
    return Setting(**{**setting, "faults": tuple(setting["faults"])}), Recorded(**said)
