"""All that differs by platform: `here` is the module of the one that this runs on.

Each of the three offers the same names; what POSIX systems have in common is in `posix`. Nothing
else in Holdfast asks for the platform, but for commands that are POSIX through and through.
"""

from __future__ import annotations

import sys

__all__ = ["here"]

if sys.platform == "win32":
    from holdfast.platforms import windows as here
elif sys.platform == "darwin":
    from holdfast.platforms import macos as here
else:
    from holdfast.platforms import linux as here
