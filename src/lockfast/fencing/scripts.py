"""The script that a write to Redis is put into.

KEYS[1] is the mark, ARGV[1] the token; what follows belongs to the caller. The mark is raised
before the write: a script that fails half way is not undone, and what it did was ours.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache

from lockfast.errors import ConfigurationError

# `tonumber` is exact below 2^53, as all tokens are. A mark that is larger was not written by us,
# and is larger all the same.
_CHECK = """\
local seen, token = redis.call('GET', KEYS[1]), ARGV[1]
if seen and not string.find(seen, '^%d+$') then
  return {'foreign', seen}
end
if seen and tonumber(seen) > tonumber(token) then
  return {'stale', seen}
end
if seen ~= token then
  redis.call('SET', KEYS[1], token)
end
local keys, args = {}, {}
for place = 2, #KEYS do keys[place - 1] = KEYS[place] end
for place = 2, #ARGV do args[place - 1] = ARGV[place] end
local function write(KEYS, ARGV)
"""
_RUN = """
end
return {'done', write(keys, args)}
"""

COMMAND = "return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))"
"""A command whose first argument is its key."""

NOTHING = "return 1"


@dataclass(frozen=True, slots=True)
class Script:
    """A whole script, and the name by which a server knows it."""

    text: str
    sha: str


@lru_cache(128)
def around(write: str) -> Script:
    """Return the script that checks, raises the mark and does this; KEYS and ARGV are its own."""
    if write.lstrip().startswith("#!"):
        raise ConfigurationError(
            "a script that is put into another cannot begin with #! and flags; leave that line out"
        )
    text = _CHECK + write + _RUN
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())
