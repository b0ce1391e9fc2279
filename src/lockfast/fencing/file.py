"""A file on one machine that refuses a late holder: the token stands in a file beside it."""

from __future__ import annotations

import os
import stat
import tempfile
import time
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING

from lockfast.errors import BackendUnavailable, ConfigurationError
from lockfast.fencing.presenting import Presented, shown
from lockfast.fencing.staleness import stale
from lockfast.platforms import here

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedRandom

    from lockfast.core.sequencing import Sequencer

DIGITS = 16
"""As many as the largest token has: a mark is always of one length, and written at once."""

DRAFT = ".draft"
"""How the name of a content ends that is yet to be put in place."""

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
    What a killed writer has left beside the path (`.NAME.….draft`) is removed by a later one.
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 10.0) -> None:
        # A link stays one: what it leads to is replaced.
        self.path: Path = Path(os.path.realpath(path))
        self._mark = self.path.with_name(f"{self.path.name}.fence")
        self._timeout = timeout
        self._is_swept = False  # once for each object: the directory may have many other files

    def write(self, lease: Presented, content: bytes) -> None:
        """Replace the content, or raise StaleToken and change nothing."""
        if not isinstance(content, bytes | bytearray | memoryview):
            raise TypeError(f"content is bytes, not {type(content).__name__}")
        who = shown(lease)
        # All that takes long comes before the mark is locked.
        left = [] if self._is_swept else self._drafts()
        with self._draft(content) as draft, self._locked() as mark:
            self._raise(mark, who)
            # Under the mark's lock, as the sweep: from here on it looks like a dead writer's.
            draft.close()
            Path(draft.name).replace(self.path)
            here.sync_directory(self.path.parent)
            _sweep(left)
            self._is_swept = True

    def seal(self, lease: Presented) -> None:
        """Raise the mark and write nothing else, before the first read.

        From then on an earlier holder's late write is refused.
        """
        who = shown(lease)
        with self._locked() as mark:
            self._raise(mark, who)

    @contextmanager
    def _draft(self, content: bytes) -> Iterator[BufferedRandom]:
        """Give a file with the content, which stands beside the path and is locked.

        The lock says that its writer lives: what a killed one has left is swept by a later one.
        """
        draft = self._locked_draft()
        try:
            _set_mode(draft, self._mode())
            draft.write(content)
            draft.flush()
            os.fsync(draft.fileno())
            yield draft
        finally:
            draft.close()
            with suppress(FileNotFoundError):
                Path(draft.name).unlink()

    def _locked_draft(self) -> BufferedRandom:
        prefix, directory = f".{self.path.name}.", self.path.parent
        while True:
            number, name = tempfile.mkstemp(prefix=prefix, suffix=DRAFT, dir=directory)
            os.close(number)
            # By its name: that of a file that is opened by a number is the number.
            with suppress(FileNotFoundError):  # swept before it was locked: another one
                draft = open(name, "r+b")  # noqa: SIM115, PTH123 - closed by who asked for it
                if here.try_lock_alone(draft) and _is_at(draft.fileno(), Path(name)):
                    return draft
                draft.close()

    def _mode(self) -> int:
        try:
            return stat.S_IMODE(self.path.stat().st_mode)
        except FileNotFoundError:
            return here.usual_mode()

    def _drafts(self) -> list[Path]:
        """Return the drafts of all writers, dead and alive."""
        return list(self.path.parent.glob(f"{escape(f'.{self.path.name}.')}*{DRAFT}"))

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Give the mark's file, which nobody else may touch meanwhile."""
        deadline = time.monotonic() + self._timeout
        while True:
            mark = os.open(self._mark, os.O_RDWR | os.O_CREAT | _BINARY, 0o666)
            try:
                self._lock(mark, deadline)
                if _is_at(mark, self._mark):
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


def _is_at(number: int, path: Path) -> bool:
    """Whether it is still the file that others would open: else a lock on it protects nothing."""
    try:
        return os.path.samestat(os.fstat(number), path.stat())
    except FileNotFoundError:
        return False


def _sweep(drafts: list[Path]) -> None:
    """Remove those whose writers were killed; call it while the mark is locked."""
    for one in drafts:
        # Swept by another one before; or any program has it open where that is in the way.
        with suppress(FileNotFoundError if here.CAN_REMOVE_OPEN_FILES else OSError):
            here.remove_unless_locked(one)


def _set_mode(file: BufferedRandom, mode: int) -> None:
    """Set the mode of an open file; by its name where that is the only way."""
    target = file.fileno() if os.chmod in os.supports_fd else file.name
    os.chmod(target, mode)  # noqa: PTH101 - a number
