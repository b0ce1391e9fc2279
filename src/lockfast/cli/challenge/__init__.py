"""`lockfast challenge`: what is asked for, what is shown meanwhile, and what it came to."""
