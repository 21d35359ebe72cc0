"""An agent's registry: fetched, kept fresh, verified and parsed into a manifest.

It may import the catalogue, what matches, and the way to the portal.
"""
