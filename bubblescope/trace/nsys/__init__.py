"""Reads what Nsight Systems exports to SQLite."""
