"""Connections and transports for the stores that we reach over our own sockets.

Each request has one reply, and the replies come in the order of the requests. A store provides its
codec, the method that makes a connection, and the error for a connection that cannot be made.
"""
