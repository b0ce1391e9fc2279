"""Everything that differs by platform; `here` is the module for the current platform.

The modules `linux`, `macos` and `windows` offer the same names; `posix` contains what POSIX systems
have in common. Nothing else in Lockfast checks the platform, except commands that exist only on
POSIX.
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
