"""A file on one machine that refuses a late holder's writes; a second file keeps the token."""

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
"""Number of digits of the largest token. Every mark has this length, so that one call writes it."""

DRAFT = ".draft"
"""Suffix of a file whose content has not replaced the guarded file yet."""

LOCK_POLL_SECONDS = 0.005

_BINARY = getattr(os, "O_BINARY", 0)  # otherwise Windows changes line endings


class FencedFile:
    """A file that is replaced as a whole, unless it has seen a later holder's token.

    The mark is in `path` + ".fence", which is never deleted, because without the mark, every token
    is accepted. The content is on disk when `write` returns, and at every moment a reader finds
    either the old content or the new. The methods block, so in asyncio call them with
    `asyncio.to_thread`.

    The guard does not stop a late write that arrives before the next holder's first write, so let
    each holder `seal` before it reads. The guard does not cover processes that write to the path
    directly. It does not work across machines, because `flock` gives other guarantees on a network
    file system. If a process is frozen in the few system calls between the check and the
    replacement, other processes cannot write until it runs again (they get BackendUnavailable after
    `timeout` seconds), and its write does no harm then. Files that a killed writer has left beside
    the path (`.NAME.….draft`) are removed by a later writer.
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 10.0) -> None:
        # If the path is a symbolic link, it stays a link, and its target is replaced.
        self.path: Path = Path(os.path.realpath(path))
        self._mark = self.path.with_name(f"{self.path.name}.fence")
        self._timeout = timeout
        self._is_swept = False  # sweep only once, as there may be many other files

    def write(self, lease: Presented, content: bytes) -> None:
        """Replace the content, or raise StaleToken and change nothing."""
        if not isinstance(content, bytes | bytearray | memoryview):
            raise TypeError(f"content is bytes, not {type(content).__name__}")
        who = shown(lease)
        # Do everything that takes a long time before the mark is locked.
        left = [] if self._is_swept else self._drafts()
        with self._draft(content) as draft, self._locked() as mark:
            self._raise(mark, who)
            # Closing the draft unlocks it, so it now looks like the draft of a dead writer. That is
            # safe here, because a sweep needs the lock of the mark too.
            draft.close()
            Path(draft.name).replace(self.path)
            here.sync_directory(self.path.parent)
            _sweep(left)
            self._is_swept = True

    def seal(self, lease: Presented) -> None:
        """Raise the mark and write nothing else; call this before the first read.

        From then on, late writes by earlier holders are refused.
        """
        who = shown(lease)
        with self._locked() as mark:
            self._raise(mark, who)

    @contextmanager
    def _draft(self, content: bytes) -> Iterator[BufferedRandom]:
        """Yield a locked file beside the path, with the content.

        The lock shows that the writer of the draft is alive. Later writers remove the drafts of
        killed writers.
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
            # Open the draft by name, because a file opened from a descriptor has a number as its
            # `name`. If another writer removed the draft before it was locked, try again.
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
        """Yield the mark's file, locked against all other writers."""
        deadline = time.monotonic() + self._timeout
        while True:
            mark = os.open(self._mark, os.O_RDWR | os.O_CREAT | _BINARY, 0o666)
            try:
                self._lock(mark, deadline)
                if _is_at(mark, self._mark):
                    yield mark
                    return
            finally:
                # Unlock the mark explicitly. Closing it is not enough, because a child process that
                # another thread has forked may still have it open.
                here.unlock(mark)
                os.close(mark)

    def _lock(self, mark: int, deadline: float) -> None:
        # Do not use a blocking call. The process that has the lock may be frozen, and we would wait
        # for ever, without an error.
        while not here.try_lock_exclusive(mark):
            if time.monotonic() >= deadline:
                raise BackendUnavailable(
                    f"{self._mark}: another process has locked it for {self._timeout} s; is it "
                    "frozen? Nothing was written"
                )
            time.sleep(LOCK_POLL_SECONDS)

    def _raise(self, mark: int, who: Sequencer) -> None:
        """Raise the mark to our token, on disk too, or refuse.

        Do this before the content is replaced. After a crash in between, the mark is new and the
        content old, as if this holder had only sealed the file.
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
        # Sync even if the mark has our token already, because an earlier write may have been killed
        # before its sync.
        os.fsync(mark)
        if not text:
            here.sync_directory(self._mark.parent)


def _is_at(number: int, path: Path) -> bool:
    """Return whether the path still leads to this file; if not, a lock on it is useless."""
    try:
        return os.path.samestat(os.fstat(number), path.stat())
    except FileNotFoundError:
        return False


def _sweep(drafts: list[Path]) -> None:
    """Remove the drafts of killed writers; call it while the mark is locked."""
    for one in drafts:
        # Another writer may have removed the draft already. Or a program may have the draft open,
        # on a system where an open file cannot be removed.
        with suppress(FileNotFoundError if here.CAN_REMOVE_OPEN_FILES else OSError):
            here.remove_unless_locked(one)


def _set_mode(file: BufferedRandom, mode: int) -> None:
    """Set the mode of an open file, by name where the system does not accept a descriptor."""
    target = file.fileno() if os.chmod in os.supports_fd else file.name
    os.chmod(target, mode)  # noqa: PTH101 - may be a descriptor
