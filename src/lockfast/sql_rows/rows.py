"""A row as it was read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


class Row(Mapping[str, Any]):
    """The values of a row by the names of its columns, as they were then."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self._columns = columns

    def __getitem__(self, column: str) -> Any:  # noqa: ANN401 - whatever the table has
        return self._columns[column]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)
