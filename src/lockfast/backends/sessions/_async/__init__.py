"""The backend with sessions, and the keep-alive of sessions; the source of both flavours."""
