"""Redis keys that refuse a late holder's writes; another key keeps the largest token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockfast.fencing import redis_scripts
from lockfast.fencing.presenting import Presented, shown, stale, whole_mark
from lockfast.fencing.redis_scripts import (
    check_client,
    check_slots,
    checked_reply,
    is_unknown_script,
)
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.fencing.redis_scripts import GuardScript


class AsyncRedisGuard:
    """Writes through your Redis client; each write and the check of its token are one step.

    `client` is a Redis (standalone, or from `Sentinel.master_for`) or a RedisCluster. On a cluster
    the mark and all keys of a write have to be in one slot. `mark` is the key that keeps the
    largest token. Use one mark for each lock, without an expiry, and let only guards write to it.

    The guard does not stop a late write that arrives before the next holder's first write, so let
    each holder `seal` before it reads. Nor does the guard cover writes that bypass it. If a
    failover or a restart loses the last writes, the mark may be lost too; the same is true if
    `maxmemory` has a policy that evicts keys without an expiry.
    """

    def __init__(self, client: Any, mark: str | bytes) -> None:  # noqa: ANN401 - not installed with us
        check_client(client, is_asyncio=runtime.FLAVOUR == "asyncio")
        if not isinstance(mark, str | bytes):
            raise TypeError(f"mark is a key, a str or bytes, not {type(mark).__name__}")
        self._client = client
        self._mark = mark

    async def command(
        self, lease: Presented, command: str, key: str | bytes, *arguments: object
    ) -> Any:  # noqa: ANN401 - the command's reply
        """Run a command on one key, such as `("SET", key, value)`, and return the server's reply.

        Raises StaleToken, and does nothing, if a later holder has written or sealed.
        """
        return await self._run(
            lease,
            redis_scripts.around(redis_scripts.COMMAND),
            keys=[key],
            arguments=[command, *arguments],
        )

    async def script(
        self,
        lease: Presented,
        script: str,
        *,
        keys: Sequence[str | bytes] = (),
        arguments: Sequence[Any] = (),
    ) -> Any:  # noqa: ANN401 - the script's reply
        """Run your script with these KEYS and ARGV, and return its reply.

        Raises StaleToken, and does not run the script, if a later holder has written or sealed.
        """
        return await self._run(
            lease, redis_scripts.around(script), keys=list(keys), arguments=list(arguments)
        )

    async def seal(self, lease: Presented) -> None:
        """Raise the mark and write nothing else; call this before the first read.

        From then on, late writes by earlier holders are refused.
        """
        await self._run(
            lease, redis_scripts.around(redis_scripts.EMPTY_SCRIPT), keys=[], arguments=[]
        )

    async def _run(
        self,
        lease: Presented,
        script: GuardScript,
        *,
        keys: list[str | bytes],
        arguments: list[Any],
    ) -> Any:  # noqa: ANN401 - the reply of the caller's part
        who = shown(lease)
        keys = [self._mark, *keys]
        check_slots(self._client, keys)
        given = (len(keys), *keys, str(who.token), *arguments)
        try:
            outcome_raw, *rest = await self._client.evalsha(script.sha, *given)
        except Exception as error:
            if not is_unknown_script(error):
                raise
            outcome_raw, *rest = await self._client.eval(script.text, *given)
        answer = checked_reply(rest[0]) if rest else None
        what = f"the key {self._mark!r}"
        outcome = outcome_raw.decode() if isinstance(outcome_raw, bytes) else outcome_raw
        if outcome == "done":
            return answer
        raise stale(who, whole_mark(answer, what=what), what=what)
