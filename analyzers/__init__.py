"""Pure functions from a trace to tables: no input or output, no clock, no printing."""
