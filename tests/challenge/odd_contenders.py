"""Locks that are none, for what a run makes of them."""

from __future__ import annotations

import os
from typing import Self


class LetsAllIn:
    """Grants whatever is asked for, and has tokens that grow with nothing."""

    token = 1

    def __init__(self, _: str, **__: float) -> None: ...

    def acquire(self, _: str, **__: float) -> Self:
        return self

    def check(self) -> None: ...

    def release(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


class Crashes(LetsAllIn):
    """Takes the interpreter with it when it is released."""

    def release(self) -> None:
        os.abort()


class CannotBegin(LetsAllIn):
    """Says why."""

    def __enter__(self) -> Self:
        raise ConnectionRefusedError("nobody listens there")
