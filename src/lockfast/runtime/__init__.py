"""The hand-written pair under both flavours: `aio` for asyncio, `threads` for sync.

Every name in `aio` exists with the same meaning in `threads`. The asyncio source imports `aio` as
`runtime`, and the generator of the sync tree replaces that import. `clock` and `fork` serve both.
"""
