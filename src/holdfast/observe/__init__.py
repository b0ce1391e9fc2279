"""What can be said of leases from the outside: advice, by which pattern a name is counted.

    locks = holdfast.Locks(url, on_event=holdfast.observe.Advisor())

What stands here is imported when it is first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.observe.advice import Advice
    from holdfast.observe.advisor import Advisor

_HERE = {"Advice": "holdfast.observe.advice", "Advisor": "holdfast.observe.advisor"}


def __getattr__(name: str) -> object:
    if name not in _HERE:
        raise AttributeError(f"module 'holdfast.observe' has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(_HERE[name]), name)
    return found


__all__ = ["Advice", "Advisor"]
