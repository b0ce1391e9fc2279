"""How a waiting claim is notified of its turn; shared by the stores."""
