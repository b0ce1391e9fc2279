"""Play what finds each flaw of the broken locks, and draw it: docs/images/broken-locks/NAME.svg.

    tools/draw_broken_locks.py [NAME ...]

A picture is of one real run. It is drawn anew when a lock, its schedule or the drawing changes.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from lockfast.challenge.broken.catching import caught
from lockfast.challenge.broken.registry import FLAWS, Flaw
from lockfast.challenge.outcome import Finding, Outcome
from lockfast.challenge.report.timeline import timeline

PICTURES = Path(__file__).parent.parent / "docs" / "images" / "broken-locks"
WITHIN = 60.0
BEFORE, AFTER = 0.4, 0.2
"""In seconds: what is shown around a finding."""


def drawn(flaw: Flaw, outcome: Outcome) -> str:
    """Return the picture of what was found first, and of what struck shortly before."""
    [finding, *_] = [one for one in outcome.findings if one.kind == flaw.kind]
    start, end = shown(flaw, finding, outcome)
    return timeline(
        outcome.events,
        outcome.strikes,
        findings=[finding],
        start=start,
        end=end,
        ttl=flaw.schedule.ttl,
        title=f"{flaw.name}: what one run saw",
    )


def shown(flaw: Flaw, finding: Finding, outcome: Outcome) -> tuple[float, float]:
    """Return from when to when it is of interest."""
    if finding.kind == "stall":
        last = max(one.at for one in outcome.events if one.act == "release" and one.phase == "ok")
        return last - 2 * BEFORE, outcome.ended
    times = [event.at for event in finding.example] or [finding.at]
    # What let two in struck before, while one of them held or just before it came.
    struck = [one.began for one in outcome.strikes if one.began < finding.at]
    start = min([min(times), *struck[-1:]])
    start = max(start, min(times) - 3 * flaw.schedule.ttl)
    return start - BEFORE, max(times) + AFTER


def main() -> None:
    """Draw those that are named, or all."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    for flaw in FLAWS:
        if sys.argv[1:] and flaw.name not in sys.argv[1:]:
            continue
        with tempfile.TemporaryDirectory() as folder:
            outcome = caught(flaw, 1, within=WITHIN, folder=Path(folder))
        path = PICTURES / f"{flaw.name}.svg"
        path.write_text(drawn(flaw, outcome) + "\n", encoding="utf-8")
        print(f"drew {path.name}")


if __name__ == "__main__":
    main()
