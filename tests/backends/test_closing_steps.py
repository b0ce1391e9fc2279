"""Closing a store carries out every step, even if an earlier step raises an error."""

from __future__ import annotations

from typing import Any

import pytest

from lockfast import Locks

NOWHERE = "127.0.0.1:1"
STEPS = {
    f"redis://{NOWHERE}": ("_inbox.stop", "_transport.close"),
    f"redlock://{NOWHERE},127.0.0.1:2,127.0.0.1:3": ("_inbox.stop", "_nodes.close"),
    f"postgresql://{NOWHERE}/none": ("_inbox.stop", "_transport.close"),
    f"memcached://{NOWHERE}": ("_transport.close", "_slow_transport.close"),
    "sqlite:///{folder}/locks.db": ("_database.close", "_worker.stop"),
}


@pytest.mark.parametrize("url", STEPS)
def test_the_last_step_is_done_although_the_first_raised(url, tmp_path, monkeypatch):
    locks = Locks(url.format(folder=tmp_path))
    backend = locks._client.backend
    first, last = STEPS[url]
    done: list[str] = []

    def fail(*_: Any) -> None:
        raise ValueError(first)

    closing = _owner(backend, last)
    close = getattr(closing, last.rpartition(".")[2])
    monkeypatch.setattr(_owner(backend, first), first.rpartition(".")[2], fail)
    monkeypatch.setattr(closing, last.rpartition(".")[2], lambda: (done.append(last), close()))

    with pytest.raises(ValueError, match=first):
        locks.close()

    assert done == [last]


def _owner(backend: Any, path: str) -> Any:
    return getattr(backend, path.partition(".")[0])
