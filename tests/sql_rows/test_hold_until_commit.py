"""With every library: a lock released before the commit lets the next seller read the old row.

Two sellers each take a lamp from a stock of ten. The second seller reads between the end of the
first seller's block and the commit.
"""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from sellers import Shop, settled

from lockfast import LeaseLost, NotOwner
from lockfast.sql_rows import hold_until_commit


async def two_sales(shop: Shop, ours: Any, theirs: Any, *, tied: bool) -> int:
    """Let the second seller begin when the first has left its block; return the lamps left."""
    first, second = await shop.seller(), await shop.seller()
    lock = ours.lock("stock")
    lease = await settled(lock.acquire())
    async with _block(lease):
        if tied:
            hold_until_commit(lease, first.target)
        await first.write(await first.read() - 1)

    came_early = await settled(theirs.lock("stock").try_acquire())
    seen = await second.read() if came_early else None
    await first.commit()
    after = came_early or await settled(theirs.lock("stock").acquire(timeout=60))
    await second.write((await second.read() if seen is None else seen) - 1)
    await second.commit()
    await settled(after.release())
    await first.close()
    await second.close()
    return shop.left()


@contextlib.asynccontextmanager
async def _block(lease: Any):
    """Enter the lease, of either flavour, for a block."""
    if hasattr(lease, "__aenter__"):
        async with lease:
            yield
    else:
        with lease:
            yield


def test_without_it_one_of_two_sales_is_lost(shop, play):
    """If no sale were lost without it, the next test would prove nothing."""
    assert play(lambda a, b: two_sales(shop, a, b, tied=False)) == 9


def test_with_it_both_count(shop, play):
    assert play(lambda a, b: two_sales(shop, a, b, tied=True)) == 8


def test_a_rollback_frees_the_name_too(shop, play):
    async def scene(ours, theirs):
        seller = await shop.seller()
        lease = await settled(ours.lock("stock").acquire())
        hold_until_commit(lease, seller.target)
        await seller.write(5)
        was_free = await settled(theirs.lock("stock").try_acquire())
        await seller.rollback()
        await seller.close()
        return was_free, await settled(theirs.lock("stock").try_acquire())

    was_free, then = play(scene)

    assert was_free is None
    assert then is not None
    assert shop.left() == 10


def test_one_who_closes_in_the_middle_frees_it(shop, play):
    async def scene(ours, theirs):
        seller = await shop.seller()
        hold_until_commit(await settled(ours.lock("stock").acquire()), seller.target)
        await seller.write(5)
        await seller.close()
        return await settled(theirs.lock("stock").acquire(timeout=60))

    assert play(scene) is not None
    assert shop.left() == 10


def test_a_transaction_in_which_nothing_was_asked_ends_too(shop, play):
    """SQLAlchemy reports no event for a transaction that never began."""

    async def scene(ours, theirs):
        free = []
        for end in ("commit", "rollback", "close"):
            seller = await shop.seller()
            hold_until_commit(await settled(ours.lock(end).acquire()), seller.target)
            await getattr(seller, end)()
            free.append(await settled(theirs.lock(end).try_acquire()) is not None)
            if end != "close":
                await seller.close()
        return free

    assert play(scene) == [True, True, True]


@pytest.mark.parametrize(("how", "error"), [("lost", LeaseLost), ("released", NotOwner)])
def test_a_commit_is_refused_when_the_name_is_no_longer_ours(how, error, shop, play):
    async def scene(ours, _theirs):
        seller = await shop.seller()
        lease = await settled(ours.lock("stock").acquire())
        hold_until_commit(lease, seller.target)
        await seller.write(5)
        await settled(ours.break_("stock") if how == "lost" else lease.release())
        with pytest.raises(error):
            await seller.commit()
        await seller.rollback()
        await seller.close()

    play(scene)

    assert shop.left() == 10


def test_two_leases_end_with_one_transaction_and_the_next_has_its_own(shop, play):
    async def scene(ours, theirs):
        seller = await shop.seller()
        for name in ("a", "b"):
            hold_until_commit(await settled(ours.lock(name).acquire()), seller.target)
        await seller.write(9)
        await seller.commit()
        free = [await settled(theirs.lock(name).try_acquire()) for name in ("a", "b")]
        hold_until_commit(await settled(ours.lock("c").acquire()), seller.target)
        await seller.write(8)
        held = await settled(theirs.lock("c").try_acquire())
        await seller.commit()
        await seller.close()
        return *free, held, await settled(theirs.lock("c").try_acquire())

    a, b, held, c = play(scene)

    assert None not in (a, b, c)
    assert held is None
    assert shop.left() == 8


def test_one_refused_of_two_keeps_the_commit_from_happening(shop, play):
    """The lease on "a" is valid, but it must not let the commit happen without the lease on "b"."""

    async def scene(ours, _theirs):
        seller = await shop.seller()
        for name in ("a", "b"):
            hold_until_commit(await settled(ours.lock(name).acquire()), seller.target)
        await seller.write(5)
        await settled(ours.break_("b"))
        with pytest.raises(LeaseLost):
            await seller.commit()
        await seller.rollback()
        await seller.close()

    play(scene)

    assert shop.left() == 10
