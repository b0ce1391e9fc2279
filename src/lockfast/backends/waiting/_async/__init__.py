"""The part of waiting that is written once for tasks and threads."""
