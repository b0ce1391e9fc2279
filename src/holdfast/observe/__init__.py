"""What can be said of leases from the outside: by which pattern a name is counted."""
