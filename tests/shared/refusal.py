"""The message of a refusal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lockfast import ConfigurationError


def refusal(
    act: Callable[[], Any], kind: type[Exception] | tuple[type[Exception], ...] = ConfigurationError
) -> str:
    """Return the message of the refusal; a wrong type is a plain TypeError."""
    with pytest.raises(kind) as refused:
        act()
    assert not isinstance(refused.value, UnicodeError)
    return str(refused.value)
