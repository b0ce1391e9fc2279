"""What the stores share that are asked over sockets of our own: links, and who keeps them.

One request has one reply, in order. A store brings how bytes become replies (`parsing`), how a
link is made, and what it says when that fails.
"""
