"""A file on one machine that refuses a late holder; the token is kept in a file beside it."""

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
from lockfast.fencing.presenting import Presented, shown, stale
from lockfast.platforms import here

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedRandom

    from lockfast.core.lease_text import Sequencer

TOKEN_DIGITS = 16
"""Number of digits of the largest token. Every mark has this length, and is written in one call."""

DRAFT = ".draft"
"""Suffix of a file whose content is yet to be put in place."""

LOCK_POLL_SECONDS = 0.005

_BINARY = getattr(os, "O_BINARY", 0)  # without this flag, Windows changes line endings


class FencedFile:
    """A file that is replaced as a whole, unless a later holder's token was seen.

    The mark is in `path` + ".fence", which is never deleted, because without it every token is
    accepted. The content is on disk when `write` returns, and at every moment a reader finds either
    the old content or the new. The methods block, so in asyncio call them with `asyncio.to_thread`.

    The guard does not stop a late write that arrives before the next holder's first, so let each
    holder `seal` before it reads. It does not cover processes that write to the path directly. It
    does not work across machines, because `flock` gives other guarantees on a network file system.
    A process that is frozen in the few system calls between check and replacement blocks others
    until it runs again (BackendUnavailable after `timeout` seconds), and does no harm then. Files
    that a killed writer has left beside the path (`.NAME.….draft`) are removed by a later writer.
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 10.0) -> None:
        # A symbolic link stays a link, and its target is replaced.
        self.path: Path = Path(os.path.realpath(path))
        self._mark = self.path.with_name(f"{self.path.name}.fence")
        self._timeout = timeout
        self._is_swept = False  # sweep once per object, as the directory may have many other files

    def write(self, lease: Presented, content: bytes) -> None:
        """Replace the content, or raise StaleToken and change nothing."""
        if not isinstance(content, bytes | bytearray | memoryview):
            raise TypeError(f"content is bytes, not {type(content).__name__}")
        who = shown(lease)
        # Everything that takes a long time comes before the mark is locked.
        left = [] if self._is_swept else self._drafts()
        with self._draft(content) as draft, self._locked() as mark:
            self._raise(mark, who)
            # Closing unlocks the draft, so it now looks like a dead writer's. That is safe here,
            # because the sweep needs the mark's lock too.
            draft.close()
            Path(draft.name).replace(self.path)
            here.sync_directory(self.path.parent)
            _sweep(left)
            self._is_swept = True

    def seal(self, lease: Presented) -> None:
        """Raise the mark and write nothing else; call it before the first read.

        From then on an earlier holder's late write is refused.
        """
        who = shown(lease)
        with self._locked() as mark:
            self._raise(mark, who)

    @contextmanager
    def _draft(self, content: bytes) -> Iterator[BufferedRandom]:
        """Yield a locked file beside the path, with the content.

        The lock shows that the draft's writer is alive; drafts of killed writers are swept by a
        later one.
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
            # Open the draft by name, because the `name` of a file opened from a descriptor is a
            # number. If the draft was swept before it was locked, try again.
            with suppress(FileNotFoundError):
                draft = open(name, "r+b")  # noqa: SIM115, PTH123 - closed by the caller
                if here.try_lock_exclusive(draft) and _is_at(draft.fileno(), Path(name)):
                    return draft
                draft.close()

    def _mode(self) -> int:
        try:
            return stat.S_IMODE(self.path.stat().st_mode)
        except FileNotFoundError:
            return here.default_file_mode()

    def _drafts(self) -> list[Path]:
        """Return the drafts of all writers, dead and alive."""
        return list(self.path.parent.glob(f"{escape(f'.{self.path.name}.')}*{DRAFT}"))

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Yield the mark's file, locked against all others."""
        deadline = time.monotonic() + self._timeout
        while True:
            mark = os.open(self._mark, os.O_RDWR | os.O_CREAT | _BINARY, 0o666)
            try:
                self._lock(mark, deadline)
                if _is_at(mark, self._mark):
                    yield mark
                    return
            finally:
                # Unlock the mark explicitly. Closing it is not enough, because a child that another
                # thread forks has it open too.
                here.unlock(mark)
                os.close(mark)

    def _lock(self, mark: int, deadline: float) -> None:
        # This must not be a blocking call, because the process that has the lock may be frozen, and
        # we would wait without an error.
        while not here.try_lock_exclusive(mark):
            if time.monotonic() >= deadline:
                raise BackendUnavailable(
                    f"{self._mark}: another process has locked it for {self._timeout} s; is it "
                    "frozen? Nothing was written"
                )
            time.sleep(LOCK_POLL_SECONDS)

    def _raise(self, mark: int, who: Sequencer) -> None:
        """Raise the mark to our token, on disk too, or refuse.

        This comes before the content is replaced. After a crash in between, the old content is
        under the new mark, as if this holder had only sealed it.
        """
        os.lseek(mark, 0, os.SEEK_SET)
        text = os.read(mark, TOKEN_DIGITS + 2)
        if text and not (len(text) == TOKEN_DIGITS + 1 and text[:-1].isdigit()):
            raise ConfigurationError(
                f"{self._mark} has {text!r} where the largest token belongs; it was damaged, or "
                "something else wrote to it"
            )
        seen = int(text or b"0")
        if seen > who.token:
            raise stale(who, seen, what=str(self.path))
        if seen < who.token:
            os.lseek(mark, 0, os.SEEK_SET)
            os.write(mark, b"%0*d\n" % (TOKEN_DIGITS, who.token))
        # Sync even if the mark was ours already, because an earlier write may have been killed
        # before this line.
        os.fsync(mark)
        if not text:
            here.sync_directory(self._mark.parent)


def _is_at(number: int, path: Path) -> bool:
    """Whether the path still leads to this file; otherwise a lock on it protects nothing."""
    try:
        return os.path.samestat(os.fstat(number), path.stat())
    except FileNotFoundError:
        return False


def _sweep(drafts: list[Path]) -> None:
    """Remove the drafts of killed writers; call it while the mark is locked."""
    for one in drafts:
        # Another writer may have swept the draft already, or a program may have it open on a system
        # where that prevents its removal.
        with suppress(FileNotFoundError if here.CAN_REMOVE_OPEN_FILES else OSError):
            here.remove_unless_locked(one)


def _set_mode(file: BufferedRandom, mode: int) -> None:
    """Set the mode of an open file, by name on systems that do not accept a descriptor."""
    target = file.fileno() if os.chmod in os.supports_fd else file.name
    os.chmod(target, mode)  # noqa: PTH101 - a number
