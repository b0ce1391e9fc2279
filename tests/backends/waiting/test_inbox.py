"""What an inbox does for every store, with a store that the test makes up, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from virtual import virtual_clock

from lockfast.backends.waiting import NotificationsUnavailable
from lockfast.backends.waiting._async.inbox import (
    INBOX_IDLE_SECONDS,
    OVERSLEPT_SECONDS,
    AsyncInbox,
    AsyncReceiver,
    AsyncWaitPolicy,
)
from lockfast.backends.waiting.listener_aio import Listener
from lockfast.backends.waiting.schedule import Checked, Timing
from lockfast.errors import BackendUnavailable, ConfigurationError
from lockfast.model import FOREVER, Claim
from lockfast.testing import run_in_virtual_time


@dataclass
class Waiter:
    """What this store records about a claim that waits."""

    claim: Claim


def waiter(number: int) -> Waiter:
    one = Claim(f"claim {number}", f"door {number}", "client", "owner", 1, 1, 30.0)
    return Waiter(one)


class Subscription(Listener):
    """A subscription on which nothing arrives by itself."""

    def __init__(self) -> None:
        super().__init__(asyncio.get_running_loop().create_future(), clock=virtual_clock())
        self.is_closed = False
        self.oversleeps = 0.0

    async def listen(self, *, until: float) -> bool:
        if self.oversleeps:
            until, self.oversleeps = until + self.oversleeps, 0.0
        return await super().listen(until=until)

    def lose(self) -> None:
        self._lost.set_result(None)

    async def close(self) -> None:
        self.is_closed = True


class Store(AsyncWaitPolicy):
    """A store whose subscriptions and checks fail as the test says."""

    timing = Timing(5.0, 0.5, 10, subscribe_timeout=3.0, unsubscribed_poll_seconds=0.25)

    def __init__(self, *errors: Exception, sources: int = 1) -> None:
        self.sources = sources
        self.errors = list(errors)
        self.opened: list[Subscription] = []
        self.receivers: list[AsyncReceiver] = []
        self.checks: list[list[str]] = []
        self.asks = False
        self.hangs = False

    def next_channel(self, channel: str, opened: int) -> str:
        del channel
        return f"channel {opened}"

    async def subscribe(
        self, receiver: AsyncReceiver, channel: str, *, deadline: float
    ) -> Subscription:
        del channel
        if self.hangs:
            await asyncio.sleep(deadline - virtual_clock().now() + 600)
        if self.errors:
            raise self.errors.pop(0)
        self.receivers.append(receiver)
        self.opened.append(Subscription())
        return self.opened[-1]

    def deliver(self, message: Any, inbox: AsyncInbox[Any]) -> None:
        inbox.hear(*message)

    async def check(self, due: Sequence[Waiter], inbox: AsyncInbox[Any]) -> None:
        self.checks.append([one.claim.id for one in due])
        for one in due:
            inbox.checked(one, Checked(asks=(lambda _: True) if self.asks else None))


class Scene:
    """An inbox on a store, and how long its claims sleep."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.inbox = AsyncInbox[Waiter](store, virtual_clock())

    async def join(self, number: int, **options: Any) -> None:
        """Put a claim in line, and let the background listen."""
        self.inbox.joined(waiter(number), **options)
        await self.slept(number, at_most=0.0)
        await asyncio.sleep(0.1)
        with suppress(BackendUnavailable):
            await self.slept(number, at_most=0.0)  # takes the wakeup of the new subscription

    async def slept(self, number: int, *, at_most: float = 60.0) -> float:
        """Return how long a claim sleeps until it should ask."""
        before = virtual_clock().now()
        await self.inbox.wait(waiter(number).claim, deadline=before + at_most)
        return virtual_clock().now() - before


def in_virtual_time(store: Callable[[], Store], test: Callable[[Scene], Awaitable[None]]) -> None:
    async def main() -> None:
        scene = Scene(store())
        await test(scene)
        await scene.inbox.stop()
        assert all(one.is_closed for one in scene.store.opened)

    run_in_virtual_time(main())


def test_a_message_wakes_its_claim_and_no_other() -> None:
    async def test(scene: Scene) -> None:
        await scene.join(1)
        await scene.join(2)
        asyncio.get_running_loop().call_later(1.0, scene.store.receivers[0].hear, ("claim 1", 7))

        assert await scene.slept(1) == pytest.approx(1.0)
        assert await scene.slept(2, at_most=3.0) == pytest.approx(3.0)
        assert scene.inbox.heard("claim 1") == 7

    in_virtual_time(Store, test)


def test_the_largest_token_of_several_messages_counts() -> None:
    """Messages may arrive late and in any order, before the answer to the request or after it."""

    async def test(scene: Scene) -> None:
        for token in (5, 3):
            scene.inbox.hear("claim 1", token)
        scene.inbox.joined(waiter(1))
        first = scene.inbox.heard("claim 1")
        for token in (4, 9, 2):
            scene.inbox.hear("claim 1", token)

        assert (first, scene.inbox.heard("claim 1"), scene.inbox.heard("claim 1")) == (5, 9, None)

    in_virtual_time(Store, test)


def test_every_claim_asks_after_each_subscription() -> None:
    async def test(scene: Scene) -> None:
        await scene.join(1)
        await scene.join(2)
        asyncio.get_running_loop().call_later(1.0, scene.store.opened[0].lose)

        assert await scene.slept(1) == pytest.approx(1.0)
        assert await scene.slept(2) == 0.0
        assert scene.inbox.channel == "channel 2"
        assert scene.store.opened[0].is_closed

    in_virtual_time(Store, test)


def test_claims_ask_after_the_machine_was_suspended() -> None:
    """Their timers are late, and messages may have been lost."""

    async def test(scene: Scene) -> None:
        await scene.join(1)
        scene.store.opened[0].oversleeps = 100.0
        scene.inbox.receivers[0].interrupt()  # the next call of `listen` oversleeps

        assert 100.0 <= await scene.slept(1, at_most=1000.0) <= 103.0

    assert OVERSLEPT_SECONDS < 100
    in_virtual_time(Store, test)


def test_an_inbox_that_nobody_needs_is_closed_after_a_while() -> None:
    async def test(scene: Scene) -> None:
        await scene.join(1)
        scene.inbox.left("claim 1")

        await asyncio.sleep(INBOX_IDLE_SECONDS - 5)
        was_closed = scene.store.opened[0].is_closed
        await asyncio.sleep(10)

        assert not was_closed
        assert scene.store.opened[0].is_closed
        await scene.join(2)
        assert len(scene.store.opened) == 2

    in_virtual_time(Store, test)


def test_a_check_says_who_asks() -> None:
    async def test(scene: Scene) -> None:
        await scene.join(1)
        await scene.join(2)
        await asyncio.sleep(6)
        scene.store.asks = True

        assert await scene.slept(1) < 5.0
        assert scene.inbox.heard("claim 1") == 0
        assert scene.store.checks == [["claim 1", "claim 2"]] * 2

    in_virtual_time(Store, test)


def test_claims_ask_when_listening_fails_and_learn_what_is_wrong() -> None:
    async def test(scene: Scene) -> None:
        scene.inbox.joined(waiter(1))

        with pytest.raises(ConfigurationError, match="no such user"):
            await scene.slept(1)

        await asyncio.sleep(10)
        assert await scene.slept(1) == 0.0  # the subscription works now

    in_virtual_time(lambda: Store(ConfigurationError("no such user")), test)


def test_a_cause_that_has_passed_is_not_raised_to_later_claims() -> None:
    """The store lets us in again, but its notifications do not arrive, so the claims poll."""

    async def test(scene: Scene) -> None:
        scene.inbox.joined(waiter(1))
        with pytest.raises(ConfigurationError):
            await scene.slept(1)

        await asyncio.sleep(10)

        assert scene.inbox.push is False
        assert await scene.slept(1) < 1.0

    def store() -> Store:
        return Store(ConfigurationError("no such user"), NotificationsUnavailable("a pooler"))

    in_virtual_time(store, test)


def test_a_cause_that_gave_way_to_an_outage_is_not_raised_any_more() -> None:
    async def test(scene: Scene) -> None:
        scene.inbox.joined(waiter(1))
        with pytest.raises(ConfigurationError):
            await scene.slept(1)

        await asyncio.sleep(1)

        await scene.slept(1, at_most=0.0)

    def store() -> Store:
        return Store(ConfigurationError("no such user"), *[BackendUnavailable("down")] * 100)

    in_virtual_time(store, test)


def test_until_it_listens_the_first_claim_at_a_name_asks_by_itself() -> None:
    async def test(scene: Scene) -> None:
        scene.store.hangs = True
        scene.inbox.joined(waiter(1))

        assert await scene.slept(1) == pytest.approx(0.25)

    in_virtual_time(Store, test)


def test_stopping_does_not_wait_for_a_subscription_that_is_being_opened() -> None:
    async def test(scene: Scene) -> None:
        scene.store.hangs = True
        scene.inbox.joined(waiter(1))
        await scene.slept(1)
        before = virtual_clock().now()

        await scene.inbox.stop()

        assert virtual_clock().now() == before

    in_virtual_time(Store, test)


@pytest.mark.parametrize("is_for_good", [True, False])
def test_where_no_notifications_arrive_names_are_checked_more_often(is_for_good) -> None:
    def store() -> Store:
        error = NotificationsUnavailable("a pooler is in between")
        error.is_for_good = is_for_good
        return Store(error)

    async def test(scene: Scene) -> None:
        await scene.join(1, ends_at=FOREVER, is_head=True)
        assert scene.inbox.push is False

        await asyncio.sleep(30)
        checks = len(scene.store.checks)
        await asyncio.sleep(60)

        assert checks > 20
        assert scene.inbox.push is (not is_for_good)

    in_virtual_time(store, test)


def test_claims_that_a_cancelled_background_leaves_start_it_again() -> None:
    """A program that cancels all its tasks must not leave its waiters asleep for ever."""

    async def test(scene: Scene) -> None:
        await scene.join(1)
        asyncio.get_running_loop().call_later(1.0, scene.inbox.receivers[0].background.cancel)

        assert await scene.slept(1) == pytest.approx(1.0)
        await scene.slept(1)

        assert len(scene.store.opened) == 2
        assert scene.inbox.push

    in_virtual_time(Store, test)


def test_a_message_from_any_source_wakes_while_another_fails() -> None:
    """A source that cannot be reached wakes nobody, because the others still listen."""

    async def test(scene: Scene) -> None:
        await scene.join(1)
        await asyncio.sleep(60)
        await scene.slept(1, at_most=0.0)
        [last] = scene.store.receivers[-1:]
        asyncio.get_running_loop().call_later(0.5, last.hear, ("claim 1", 0))

        assert await scene.slept(1) == pytest.approx(0.5)
        assert [one.subscription is None for one in scene.inbox.receivers] == [True, False, False]

    def store() -> Store:
        return OneIsDown(sources=3)

    in_virtual_time(store, test)


class OneIsDown(Store):
    """A store of several sources, the first of which cannot be reached."""

    async def subscribe(
        self, receiver: AsyncReceiver, channel: str, *, deadline: float
    ) -> Subscription:
        if receiver.source == 0:
            raise BackendUnavailable("down")
        return await super().subscribe(receiver, channel, deadline=deadline)
