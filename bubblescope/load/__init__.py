"""Drives a server with an OpenAI-compatible interface: synthetic prompts of an exact length, timed."""
