"""Keys in Redis that refuse a late holder: the token stands in a key beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockfast.fencing import scripts
from lockfast.fencing.presenting import Presented, shown
from lockfast.fencing.redis_clients import (
    check_client,
    check_slots,
    checked_reply,
    is_unknown_script,
)
from lockfast.fencing.staleness import stale, whole_mark
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.fencing.scripts import Script


class AsyncRedisGuard:
    """Writes by your client of Redis, each in one step with the check of the token.

    `client` is a Redis (alone, or by `Sentinel.master_for`) or a RedisCluster; on a cluster
    the mark and all keys of a write have to be in one slot. `mark` is the key that keeps the
    largest token: one for each lock, without an expiry, and written by guards alone.

    It does not stop a late write that comes before the next holder's first: let each holder
    `seal` before it reads. It says nothing of writes without it. A failover or a restart that
    loses the last writes may lose the mark with them, and so may `maxmemory` with a policy that
    evicts keys without an expiry.
    """

    def __init__(self, client: Any, mark: str | bytes) -> None:  # noqa: ANN401 - not installed with us
        check_client(client, is_asyncio=runtime.FLAVOUR == "asyncio")
        if not isinstance(mark, str | bytes):
            raise TypeError(f"mark is a key, a str or bytes, not {type(mark).__name__}")
        self._client = client
        self._mark = mark

    async def command(
        self, lease: Presented, command: str, key: str | bytes, *arguments: object
    ) -> Any:  # noqa: ANN401 - whatever the command answers
        """Run a command of one key, as `("SET", key, value)`, and return the server's answer.

        StaleToken if a later holder has written or sealed; then nothing is done.
        """
        return await self._run(
            lease, scripts.around(scripts.COMMAND), keys=[key], arguments=[command, *arguments]
        )

    async def script(
        self,
        lease: Presented,
        script: str,
        *,
        keys: Sequence[str | bytes] = (),
        arguments: Sequence[Any] = (),
    ) -> Any:  # noqa: ANN401 - whatever the script answers
        """Run a script of yours, whose KEYS and ARGV are these, and return its answer.

        StaleToken if a later holder has written or sealed; then nothing of it is run.
        """
        return await self._run(
            lease, scripts.around(script), keys=list(keys), arguments=list(arguments)
        )

    async def seal(self, lease: Presented) -> None:
        """Raise the mark and write nothing else, before the first read.

        From then on an earlier holder's late write is refused.
        """
        await self._run(lease, scripts.around(scripts.NOTHING), keys=[], arguments=[])

    async def _run(
        self, lease: Presented, script: Script, *, keys: list[str | bytes], arguments: list[Any]
    ) -> Any:  # noqa: ANN401 - whatever the caller's part answers
        who = shown(lease)
        keys = [self._mark, *keys]
        check_slots(self._client, keys)
        given = (len(keys), *keys, str(who.token), *arguments)
        try:
            said, *rest = await self._client.evalsha(script.sha, *given)
        except Exception as error:
            if not is_unknown_script(error):
                raise
            said, *rest = await self._client.eval(script.text, *given)
        answer = checked_reply(rest[0]) if rest else None
        what = f"the key {self._mark!r}"
        outcome = said.decode() if isinstance(said, bytes) else said
        if outcome == "done":
            return answer
        raise stale(who, whole_mark(answer, what=what), what=what)
