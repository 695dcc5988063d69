"""Recording: starting an engine with collectors in place, and merging what they wrote."""
