"""Several calls made at once, in the sync flavour; asyncio has `gather`."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")


def side_by_side(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Return what each call returns; the first is made on the caller's own thread.

    What no thread is to be had for is made there too, afterwards: late is better than not.
    """
    results: dict[int, T] = {}
    errors: list[BaseException] = []

    def make(number: int) -> None:
        try:
            results[number] = calls[number]()
        except BaseException as error:  # noqa: BLE001 - it is raised where they are gathered
            errors.append(error)

    threads, left = [], [0] if calls else []
    for number in range(1, len(calls)):
        thread = threading.Thread(target=make, args=(number,), daemon=True)
        try:
            thread.start()
        except RuntimeError:
            left.append(number)
        else:
            threads.append(thread)
    for number in left:
        make(number)
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [results[number] for number in range(len(calls))]
