"""Stores inside the process or the machine: blocking code that serves both flavours."""
