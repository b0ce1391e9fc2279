"""Redis: one server, a master that Sentinels watch, or a cluster; one script per verb.

The link is thin: the driver connects and logs in, our own code carries the commands.

`resp` reads and writes the protocol, `requests` the scripts' requests and answers, `refusals`
says what an error means, `routing` to which node of a cluster a request goes; they serve both
flavours. `connection` and `subscription` are hand-written pairs: one multiplexed connection
per event loop, one connection per calling thread.
"""
