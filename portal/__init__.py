"""The project package and base app."""
