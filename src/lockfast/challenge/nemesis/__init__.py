"""Who is against the clients: faults that strike them and their ways, one kind at a time."""
