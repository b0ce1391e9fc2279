"""Run the test that exposes each broken lock, and draw it: docs/images/broken-locks/NAME.svg.

    tools/draw_broken_locks.py [NAME ...]

A picture shows one real run. Redraw it when a lock, its schedule or the drawing changes.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from lockfast_challenge.broken.catching import caught
from lockfast_challenge.broken.registry import FLAWS, Flaw
from lockfast_challenge.outcome import Outcome, RunFinding
from lockfast_challenge.report.timeline import timeline

PICTURES = Path(__file__).parent.parent / "docs" / "images" / "broken-locks"
WITHIN = 60.0
BEFORE, AFTER = 0.4, 0.2
"""Time shown before and after a finding, in seconds."""


def drawn(flaw: Flaw, outcome: Outcome) -> str:
    """Return the picture of the first finding, and of the fault shortly before it."""
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


def shown(flaw: Flaw, finding: RunFinding, outcome: Outcome) -> tuple[float, float]:
    """Return the start and end of the interesting part."""
    if finding.kind == "stall":
        last = max(one.at for one in outcome.events if one.act == "release" and one.phase == "ok")
        return last - 2 * BEFORE, outcome.ended
    times = [event.at for event in finding.example] or [finding.at]
    # The last fault that began before the finding is the one that let two clients in.
    struck = [one.began for one in outcome.strikes if one.began < finding.at]
    start = min([min(times), *struck[-1:]])
    start = max(start, min(times) - 3 * flaw.schedule.ttl)
    return start - BEFORE, max(times) + AFTER


def main() -> None:
    """Draw the named locks, or all locks if none is named."""
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
