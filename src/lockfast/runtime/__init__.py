"""The hand-written pair under both flavours: `aio` for asyncio, `threads` for the rest.

Every name in `aio` stands in `threads` with the same meaning; the shell imports one of
them as `runtime`, and that import is what the generator of the sync tree renames.
`clock` and `forking` serve both.
"""
