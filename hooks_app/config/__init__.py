"""The config file: an installation's organizations as one document, applied and exported."""
