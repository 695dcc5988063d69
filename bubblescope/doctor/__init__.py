"""Foretells which devices can run a model with an engine, and explains why one did not."""
