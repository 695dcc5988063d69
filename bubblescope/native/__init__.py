"""The libraries in C and C++ that record what no Python collector sees, compiled where they are used."""
