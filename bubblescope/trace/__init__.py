"""The recording as tables: model, readers, writer."""
