"""What an engine's own ways cost, each with its size and the flag that cures it."""
