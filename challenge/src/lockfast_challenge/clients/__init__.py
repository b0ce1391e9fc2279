"""The clients of a challenge: separate processes that contend and record what they see."""
