"""What to change: cost per layer, a simulator of the pipeline, the best split, and how to say it."""
