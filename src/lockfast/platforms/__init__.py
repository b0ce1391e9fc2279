"""All that differs by platform: `here` is the module of the one that this runs on.

Each of the three offers the same names; what POSIX systems have in common is in `posix`. Nothing
else in Lockfast asks for the platform, but for commands that are POSIX through and through.
"""

from __future__ import annotations

import sys

__all__ = ["here"]

if sys.platform == "win32":
    from lockfast.platforms import windows as here
elif sys.platform == "darwin":
    from lockfast.platforms import macos as here
else:
    from lockfast.platforms import linux as here
