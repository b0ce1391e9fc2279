"""A run that was kept in a folder, judged again; nothing is run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast import ConfigurationError
from lockfast.challenge.checker.judging import judge
from lockfast.challenge.keeping import kept
from lockfast.challenge.outcome import Outcome

if TYPE_CHECKING:
    from pathlib import Path


def judged_again(folder: Path) -> Outcome:
    """Return what the run in this folder came to, by the checker as it is now.

    Which faults could not be made is not in the folder.
    """
    try:
        setting, recorded = kept(folder)
        findings = judge(recorded)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"{folder} holds no history that can be read ({error}): "
            "name a folder that --history made"
        ) from error
    times = [event.at for event in recorded.events]
    times += [at for strike in recorded.strikes for at in (strike.began, strike.ended)]
    return Outcome(
        setting,
        began=min(times, default=0.0),
        ended=max(times, default=0.0),
        events=list(recorded.events),
        writes=list(recorded.writes),
        strikes=list(recorded.strikes),
        findings=findings,
        grants=sum(one.act == "acquire" and one.phase == "ok" for one in recorded.events),
    )
