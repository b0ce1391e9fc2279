"""The clients of a challenge: processes of their own that contend, and write down what they see."""
