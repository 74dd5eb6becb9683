"""Thresholds belong to an embedding model: what was measured for each, and what a site measured itself.

`profiles` is pure and asked in every turn; `stored` reads and writes the site's own rows. Imports `knowledge.models`
alone.
"""
