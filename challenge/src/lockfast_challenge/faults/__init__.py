"""The faults of a run: they strike clients, connections and servers, one kind at a time."""
