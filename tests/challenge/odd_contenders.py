"""Locks that do not lock, to test how a run copes with them."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Self

from lockfast_challenge.contender import NotGranted


class LetsAllIn:
    """Grants every request, with a token that never grows."""

    token = 1

    def __init__(self, _: str, **__: float) -> None: ...

    def acquire(self, _: str, **__: float) -> Self:
        return self

    def check(self) -> None: ...

    def release(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


class Crashes(LetsAllIn):
    """Crashes the interpreter when the lock is released."""

    def release(self) -> None:
        os.abort()


class CannotBeginAgain(Crashes):
    """After a crash, the replacement dies before it can acquire."""

    def __enter__(self) -> Self:
        if Path(os.environ["CRASHED"]).exists():
            raise ConnectionRefusedError("nobody listens there now")
        return self

    def release(self) -> None:
        Path(os.environ["CRASHED"]).touch()
        super().release()


class TellsWhereItIs(LetsAllIn):
    """Prints its environment, ids, directory and descriptors, and then ends."""

    def __enter__(self) -> Self:
        listed = Path("/proc/self/fd").iterdir()
        descriptors = [str(one.readlink()) for one in listed if one.is_symlink()]
        told = {"pid": os.getpid(), "session": os.getsid(0), "directory": str(Path.cwd())}
        sys.stdout.write(json.dumps({**os.environ, **told, "descriptors": descriptors}))
        signal.raise_signal(signal.SIGTERM)
        return self


class Leaks(LetsAllIn):
    """Leaks a descriptor, a thread and a name."""

    def __exit__(self, *_: object) -> None:
        os.dup(0)
        threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()

    is_renewed = False

    @staticmethod
    def is_fair(_: str) -> bool:
        return False

    @staticmethod
    def left(_: str, name: str) -> list[str]:
        return [f"nobody holds {name}"]


class LeaksWithUse(LetsAllIn):
    """Leaks a descriptor with each grant, and closes them all at the end."""

    def __init__(self, _: str, **__: float) -> None:
        self._leaked: list[int] = []

    def acquire(self, _: str, **__: float) -> Self:
        self._leaked.append(os.dup(0))
        return self

    def __exit__(self, *_: object) -> None:
        while self._leaked:
            os.close(self._leaked.pop())


class OpensMany(LeaksWithUse):
    """Opens many descriptors when it is first used, and keeps them until the end."""

    def acquire(self, _: str, **__: float) -> Self:
        self._leaked = self._leaked or [os.dup(0) for _ in range(40)]
        return self


class NeverOpens(LetsAllIn):
    """Never grants, and reports the timeout on time."""

    def acquire(self, _: str, *, timeout: float) -> Self:
        time.sleep(timeout)
        raise NotGranted("it stays closed")


class NeverAnswers(LetsAllIn):
    """Never grants, and reports the timeout far too late."""

    def acquire(self, _: str, *, timeout: float) -> Self:
        time.sleep(10.0 + timeout)
        raise NotGranted("it stays closed")


class CrashesAtOnce(LetsAllIn):
    """Crashes the interpreter on the first acquire."""

    def acquire(self, _: str, **__: float) -> Self:
        os.abort()


class CannotBegin(LetsAllIn):
    """Fails to start, with an error that gives the reason."""

    def __enter__(self) -> Self:
        raise ConnectionRefusedError("nobody listens there")


class LeavesAChild(LetsAllIn):
    """Forks a child that outlives the process and has a child too; prints the first child's pid."""

    def __enter__(self) -> Self:
        child = os.fork()
        if child == 0:
            if os.fork() == 0:
                os._exit(0)
            signal.pause()
        print(child, flush=True)  # noqa: T201
        return self
