"""Who hears the doorbell while claims wait: a hand-written pair."""
