"""How a mended defect is put back: another piece of code stands where the mend stands.

Not as a patch of lines: those no longer apply whenever a neighbouring line changes, and a client of
a challenge is a process of its own, which would need a tree of its own. What is named here
is the mend itself. If that has moved, the defect says so instead of being none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, ClassVar


class MendHasMoved(AssertionError):
    """The defect cannot be put back, so nothing is shown by what finds nothing."""


@contextmanager
def instead(owner: Any, name: str, by: object) -> Iterator[None]:
    """Let this stand in the place of a mend, until the block is over."""
    if name not in vars(owner):
        raise MendHasMoved(
            f"{owner.__name__}.{name} is no longer there, so the defect that it mends cannot be "
            "put back: look where the mend is now, and say it in tests/challenge/defects"
        )
    mend = vars(owner)[name]
    setattr(owner, name, by)
    try:
        yield
    finally:
        setattr(owner, name, mend)


class Defective:
    """Puts a defect into the process of whoever makes a contender; whose, the next class says."""

    defect: ClassVar[Callable[[], AbstractContextManager[None]]]

    def __init__(self, url: str, *, ttl: float, clock_ahead: float) -> None:
        self._put_back = ExitStack()
        self._put_back.enter_context(type(self).defect())
        super().__init__(url, ttl=ttl, clock_ahead=clock_ahead)  # type: ignore[call-arg]

    def __exit__(self, *error: object) -> None:
        with self._put_back:
            super().__exit__(*error)  # type: ignore[misc]
