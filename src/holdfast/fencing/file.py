"""A file on one machine that refuses a late holder: the token stands in a file beside it."""

from __future__ import annotations

import os
import stat
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import BackendUnavailable, ConfigurationError
from holdfast.fencing.presenting import Presented, shown
from holdfast.fencing.staleness import stale
from holdfast.platforms import here

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.sequencing import Sequencer

DIGITS = 16
"""As many as the largest token has: a mark is always of one length, and written at once."""

LOOK_AGAIN = 0.005

_BINARY = getattr(os, "O_BINARY", 0)  # else Windows writes another end of a line


class FencedFile:
    """A file that is replaced as a whole, unless a later holder's token was seen.

    The mark is in `path` + ".fence", which is never deleted: without it every token is
    accepted. What is written is on the disk when `write` returns, and at every moment a reader
    finds the old content or the new. It blocks: in asyncio call it by `asyncio.to_thread`.

    It does not stop a late write that comes before the next holder's first: let each holder
    `seal` before it reads. It says nothing of those who write to the path without it, and
    nothing across machines: `flock` on a network file system is another promise. A process
    that is frozen in the few system calls between check and replacement keeps others out
    until it runs again (BackendUnavailable after `timeout` seconds), and does no harm then.
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 10.0) -> None:
        # A link stays one: what it leads to is replaced.
        self.path: Path = Path(os.path.realpath(path))
        self._mark = self.path.with_name(f"{self.path.name}.fence")
        self._timeout = timeout

    def write(self, lease: Presented, content: bytes) -> None:
        """Replace the content, or raise StaleToken and change nothing."""
        if not isinstance(content, bytes | bytearray | memoryview):
            raise TypeError(f"content is bytes, not {type(content).__name__}")
        who = shown(lease)
        # All that takes long comes before the mark is locked.
        draft = self._draft(content)
        try:
            with self._locked() as mark:
                self._raise(mark, who)
                draft.replace(self.path)
                here.sync_directory(self.path.parent)
        finally:
            with suppress(FileNotFoundError):
                draft.unlink()

    def seal(self, lease: Presented) -> None:
        """Raise the mark and write nothing else, before the first read.

        From then on an earlier holder's late write is refused.
        """
        who = shown(lease)
        with self._locked() as mark:
            self._raise(mark, who)

    def _draft(self, content: bytes) -> Path:
        try:
            mode = stat.S_IMODE(self.path.stat().st_mode)
        except FileNotFoundError:
            mode = None
        number, name = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
        try:
            with os.fdopen(number, "wb") as file:
                _set_mode(number, name, here.usual_mode() if mode is None else mode)
                file.write(content)
                file.flush()
                os.fsync(number)
        except BaseException:
            os.unlink(name)  # noqa: PTH108 - a str
            raise
        return Path(name)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Give the mark's file, which nobody else may touch meanwhile."""
        deadline = time.monotonic() + self._timeout
        while True:
            mark = os.open(self._mark, os.O_RDWR | os.O_CREAT | _BINARY, 0o666)
            try:
                self._lock(mark, deadline)
                if self._is_in_place(mark):
                    yield mark
                    return
            finally:
                # Said, not only closed: a child that another thread forks has it open as well.
                here.unlock(mark)
                os.close(mark)

    def _lock(self, mark: int, deadline: float) -> None:
        # Not by a call that waits: whoever has it may be frozen, and nobody would be told.
        while not here.try_lock_alone(mark):
            if time.monotonic() >= deadline:
                raise BackendUnavailable(
                    f"{self._mark}: another process has locked it for {self._timeout} s; is it "
                    "frozen? Nothing was written"
                )
            time.sleep(LOOK_AGAIN)

    def _is_in_place(self, mark: int) -> bool:
        """Whether it is still the file that others would open: else the lock protects nothing."""
        try:
            return os.path.samestat(os.fstat(mark), self._mark.stat())
        except FileNotFoundError:
            return False

    def _raise(self, mark: int, who: Sequencer) -> None:
        """Raise the mark to our token, on the disk too, or refuse.

        Before the content is replaced: after a crash in between the old content stands under
        the new mark, which is as if this holder had only sealed it.
        """
        os.lseek(mark, 0, os.SEEK_SET)
        text = os.read(mark, DIGITS + 2)
        if text and not (len(text) == DIGITS + 1 and text[:-1].isdigit()):
            raise ConfigurationError(
                f"{self._mark} has {text!r} where the largest token belongs; it was damaged, or "
                "something else wrote to it"
            )
        seen = int(text or b"0")
        if seen > who.token:
            raise stale(who, seen, what=str(self.path))
        if seen < who.token:
            os.lseek(mark, 0, os.SEEK_SET)
            os.write(mark, b"%0*d\n" % (DIGITS, who.token))
        # Also where it was ours already: an earlier write may have been killed before this.
        os.fsync(mark)
        if not text:
            here.sync_directory(self._mark.parent)


def _set_mode(number: int, name: str, mode: int) -> None:
    """Set the mode of an open file; by its name where that is the only way."""
    os.chmod(number if os.chmod in os.supports_fd else name, mode)  # noqa: PTH101 - a number
