"""What runs inside the server: one verb per file, its contract in the first comment.

A script of Redis has no way to call another, so a line `-- include x.lua` stands for that
file. It may stand in the middle: what is said before it runs before the rest is defined.
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
    """A whole script, and the name under which a Redis server keeps it."""

    source: bytes
    sha: bytes

    @classmethod
    def from_text(cls, text: str) -> Script:
        """Return the script, under the server's own name for it, which is no protection."""
        source = text.encode()
        return cls(source, hashlib.sha1(source, usedforsecurity=False).hexdigest().encode())


@cache
def redis_script(verb: str) -> Script:
    """Return the script of a verb."""
    return Script.from_text(script_text(__name__, verb))


@cache
def script_text(package: str, verb: str) -> str:
    """Return the text of a script that stands in a package, whole."""
    # Not by a path: the package may stand in a zip file.
    folder = resources.files(package)
    return _INCLUDE.sub(lambda found: _text(folder / found[1]), _text(folder / f"{verb}.lua"))


def _text(path: Traversable) -> str:
    return path.read_text(encoding="utf-8")
