"""Pipelines as code: what hosts launch, when devices run it, and what every nanosecond is.

`program` says what each rank's host does; `execution` plays it, event by event; `recording`
writes what a profiler would have seen of it; `truth` names the state of every nanosecond and who
is to blame for it, one nanosecond after the other, from what the simulation knows.
"""
