"""What runs inside or beside an engine: standard library only, inert unless told to record."""
