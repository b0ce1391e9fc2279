"""How to reintroduce a defect: replace the code that fixes it.

A patch of lines would no longer apply whenever a neighbouring line changes, and each client of a
challenge is a separate process, which would need its own source tree. Here, only the fix itself is
named. If it has moved, the defect fails with an error instead of having no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, ClassVar


class MendHasMoved(AssertionError):
    """The defect cannot be put back, so a run that finds nothing proves nothing."""


@contextmanager
def instead(owner: Any, name: str, by: object) -> Iterator[None]:
    """Replace the fix, which is the attribute `name` of `owner`, with `by` until the block ends."""
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
    """Puts `defect` into the process that creates the contender, which is the next base class."""

    defect: ClassVar[Callable[[], AbstractContextManager[None]]]

    def __init__(self, url: str, *, ttl: float, clock_ahead: float) -> None:
        self._put_back = ExitStack()
        self._put_back.enter_context(type(self).defect())
        super().__init__(url, ttl=ttl, clock_ahead=clock_ahead)  # type: ignore[call-arg]

    def __exit__(self, *error: object) -> None:
        with self._put_back:
            super().__exit__(*error)  # type: ignore[misc]
