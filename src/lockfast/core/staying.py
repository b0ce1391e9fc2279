"""What belongs to one process: pickled or copied it would be somebody's who holds nothing."""

from __future__ import annotations

from typing import ClassVar, NoReturn


class StaysHere:
    """Refuses to be pickled or copied, and says what goes to another process instead."""

    __slots__ = ()

    _goes_instead: ClassVar[str] = "make a client there"
    """What to do where it would have gone."""

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} belongs to this process and can be neither pickled nor copied; "
            f"{self._goes_instead}"
        )
