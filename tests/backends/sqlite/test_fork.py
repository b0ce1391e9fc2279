"""Forking while holding: the child holds nothing, the parent loses nothing."""

from __future__ import annotations

import pytest

import lockfast

SOON = 2.0
FORKS = 15


@pytest.fixture
def watcher(url):
    with lockfast.Locks(url) as locks:
        yield locks


@pytest.fixture(params=["os.fork", "multiprocessing"])
def how(request) -> str:
    return request.param


def test_a_forked_child_holds_nothing(puppet, url, watcher, how):
    """Law 13: a child has copies of its parent's objects, but none of its leases."""
    parent = puppet(url)
    token = parent.ask("acquire", "door")

    child = parent.fork(how=how)
    with pytest.raises(lockfast.LeaseLost) as told:
        child.ask("check", "door")

    assert (told.value.reason, told.value.token) == ("forked", token)
    assert child.ask("is_trusted", "door") is False
    assert [one.owner.pid for one in watcher.inspect("door").holders] == [parent.pid]


def test_leaving_the_block_in_the_child_touches_nothing(puppet, url, watcher, how):
    """A child that leaves a block which its parent entered does not release the parent's lock."""
    parent = puppet(url)
    parent.ask("enter", "door")
    before = watcher.inspect("door").last_token

    child = parent.fork(how=how)
    child.ask("leave", "door")

    parent.ask("check", "door")
    assert [one.owner.pid for one in watcher.inspect("door").holders] == [parent.pid]
    assert watcher.inspect("door").last_token == before
    parent.ask("leave", "door")
    assert watcher.inspect("door").holders == ()


def test_releasing_in_the_child_is_refused_and_touches_nothing(puppet, url, watcher):
    """Only the parent can end what the parent holds."""
    parent = puppet(url)
    parent.ask("acquire", "door")

    child = parent.fork()
    with pytest.raises(lockfast.LeaseLost):
        child.ask("release", "door")

    parent.ask("check", "door")
    assert [one.owner.pid for one in watcher.inspect("door").holders] == [parent.pid]


def test_the_end_of_the_child_takes_nothing_from_the_parent(puppet, url, watcher):
    """Neither a child's close nor its death by kill -9 frees the parent's lock."""
    parent = puppet(url)
    parent.ask("acquire", "door")
    closing, dying = parent.fork(), parent.fork()

    closing.ask("close")
    dying.kill()

    assert watcher.lock("door").try_acquire() is None
    parent.ask("check", "door")


def test_the_parent_still_renews_after_a_fork(puppet, url, eventually, how):
    """A fork in the middle of a lease must not stop its watchdog."""
    parent = puppet(url, ttl=6)
    parent.ask("acquire", "door")
    parent.fork(how=how)
    before = parent.ask("renewals")

    eventually(lambda: parent.ask("renewals") >= before + 2)

    parent.ask("check", "door")


def test_forked_children_use_the_inherited_client_as_somebody_else(puppet, url, watcher, how):
    """Two children must not draw the same claim ids from an inherited generator."""
    parent = puppet(url)
    parent.ask("acquire", "door")
    children = [parent.fork(how=how), parent.fork(how=how)]

    for number, child in enumerate(children):
        child.ask("acquire", f"window {number}", timeout=20)

    everybody = [parent, *children]
    claims = {parent.ask("claim", "door")}
    claims |= {one.ask("claim", f"window {number}") for number, one in enumerate(children)}
    assert len(claims) == 3
    assert len({one.ask("client") for one in everybody}) == 3
    pids = [watcher.inspect(f"window {number}").holders[0].owner.pid for number in range(2)]
    assert pids == [child.pid for child in children]


def test_a_child_cannot_enter_what_its_parent_holds(puppet, url):
    """Re-entry belongs to the thread that holds, not to its copy in another process."""
    parent = puppet(url)
    parent.ask("acquire", "door")

    child = parent.fork()

    assert child.ask("try_acquire", "door") is None


@pytest.mark.parametrize("uses_it", [False, True], ids=["idle child", "child with locks"])
def test_a_killed_parents_lock_is_free_although_its_child_lives(puppet, url, watcher, uses_it):
    """The child must not make its dead parent look alive."""
    parent = puppet(url)
    token = parent.ask("acquire", "door", ttl=30)
    child = parent.fork()
    if uses_it:
        child.ask("acquire", "window", timeout=20)

    parent.kill()
    lease = watcher.lock("door").acquire(timeout=SOON)

    assert lease.token > token
    if uses_it:
        child.ask("check", "window")
        assert watcher.lock("window").try_acquire() is None


def test_a_childs_lock_holds_after_its_parent_has_closed(puppet, url):
    """A parent that closes first must not delete the log of a file that its child uses.

    SQLite counts its file locks per process. A child that inherits the parent's count has none of
    the locks. The parent would then close as if it were the last process and delete the write-ahead
    log under the child, and a third process would find the name free.
    """
    parent = puppet(url)
    parent.ask("acquire", "warm")
    child = parent.fork()
    child.ask("acquire", "window", timeout=20)

    parent.ask("close")
    token = child.ask("acquire", "door", timeout=20)
    stranger = puppet(url)

    assert child.ask("is_trusted", "door")
    assert stranger.ask("try_acquire", "door") is None
    assert stranger.ask("try_acquire", "window") is None
    child.ask("release", "door")
    assert stranger.ask("acquire", "door", timeout=20) > token


def test_a_childs_lock_holds_after_its_parent_was_killed(puppet, url):
    """A child's lock survives the death of the child's parent.

    The next process that opens the file must not believe that it is alone.
    """
    parent = puppet(url)
    parent.ask("acquire", "warm")
    child = parent.fork()
    child.ask("acquire", "window", timeout=20)

    parent.kill()
    token = child.ask("acquire", "door", timeout=20)
    stranger = puppet(url)

    assert stranger.ask("try_acquire", "window") is None
    assert stranger.ask("try_acquire", "door") is None
    child.ask("release", "door")
    assert stranger.ask("acquire", "door", timeout=20) > token


def test_forking_in_the_middle_of_other_threads_transactions_harms_nothing(puppet, url):
    """A child that is forked during another thread's transaction must not end that transaction."""
    parent = puppet(url)
    parent.ask("begin_cycling", "door", threads=3)

    tokens = []
    for _ in range(FORKS):
        child = parent.fork()
        tokens.append(child.ask("cycle", "door"))
        child.kill()
    inside = parent.ask("end_cycling")

    assert inside == sorted(set(inside))
    assert tokens == sorted(set(tokens))
    assert set(inside).isdisjoint(tokens)
    assert ("ok", "integrity") in parent.ask("findings")


def test_a_memory_store_does_not_span_a_fork(puppet):
    """A memory:// store belongs to one process, so a forked child has a new, empty store."""
    parent = puppet("memory://shared")
    parent.ask("acquire", "door")

    child = parent.fork()
    with pytest.raises(lockfast.LeaseLost):
        child.ask("check", "door")

    assert child.ask("try_acquire", "door") is not None
    assert parent.ask("holders", "door") == [parent.pid]
    parent.ask("check", "door")
