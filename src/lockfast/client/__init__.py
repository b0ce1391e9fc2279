"""The client: the API that applications call."""
