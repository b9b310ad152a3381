"""The CPU backend, over the compiled extension."""
