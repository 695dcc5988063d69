"""Analysis in, words and tables out: one module per form of the report."""
