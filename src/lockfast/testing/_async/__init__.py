"""The contract and its tools: the source of both flavours."""
