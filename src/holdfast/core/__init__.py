"""What Holdfast decides: values in, values out; no clock, socket, thread or randomness."""
