"""The thin link to Redis: the driver connects and logs in, our own code carries the commands.

`resp` reads and writes the protocol, `requests` the scripts' requests and answers, `refusals`
says what an error means; they serve both flavours. `aio` and `threads` are a hand-written
pair: one multiplexed connection per event loop, one connection per calling thread.
"""
