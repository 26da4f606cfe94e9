"""The console: the catalog as pages for people, each with a JSON twin."""
