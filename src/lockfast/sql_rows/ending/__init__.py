"""How something is ended where nobody can await it: in a hook, or when it was dropped."""
