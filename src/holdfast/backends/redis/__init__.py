"""Redis: one server, a master that Sentinels watch, or a cluster; one script per verb.

The link is thin: the driver connects and logs in, our own code carries the commands.

`resp` reads and writes the protocol, `requests` the scripts' requests and answers, `refusals`
says what an error means; they serve both flavours. `aio` and `threads` are a hand-written
pair: one multiplexed connection per event loop, one connection per calling thread.
"""
