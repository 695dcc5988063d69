"""The embedded engine: real pipeline-parallel prefill, small enough for two CPU cores.

One process per stage, matrix products and attention over a growing prefix in numpy, activations
over pipes, chunked prefill. It is instrumented as any engine can be, see docs/instrumenting.md.
"""
