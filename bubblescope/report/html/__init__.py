"""The report as one HTML file that needs nothing else: words and tables, and a timeline to look into."""
