"""The contract for backends and its tools; the source of both flavours."""
