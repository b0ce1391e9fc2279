"""What Lockfast decides: values in, values out; no clock, socket, thread or randomness."""
