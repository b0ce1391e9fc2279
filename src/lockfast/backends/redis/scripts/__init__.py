"""The scripts that run inside the server, one per file; each file begins with its contract.

A Redis script cannot call another, so a line `-- include x.lua` is replaced by that file. In the
middle of a script, this puts the included functions after code that can return early, so that the
server does not define them needlessly.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_INCLUDE = re.compile(r"^-- include (\w+\.lua)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """A complete script, and the name under which a Redis server caches it."""

    source: bytes
    sha: bytes

    @classmethod
    def from_text(cls, text: str) -> Script:
        """Return the script with its SHA-1, which the server uses as a name, not for security."""
        source = text.encode()
        return cls(source, hashlib.sha1(source, usedforsecurity=False).hexdigest().encode())


@cache
def redis_script(verb: str) -> Script:
    """Return the script named `verb`."""
    return Script.from_text(script_text(__name__, verb))


@cache
def script_text(package: str, verb: str) -> str:
    """Return the text of a script in a package, with its includes."""
    # Do not use a file path, because the package may be inside a zip file.
    folder = resources.files(package)
    return _INCLUDE.sub(lambda found: _text(folder / found[1]), _text(folder / f"{verb}.lua"))


def _text(path: Traversable) -> str:
    return path.read_text(encoding="utf-8")
