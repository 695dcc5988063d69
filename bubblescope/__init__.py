"""Where the time goes when a model is served over several GPUs, and what to change."""

__version__ = "0.1.0"
