"""Vector stores, and what points say. `base` has the protocol and the loader, `payloads` the fields of a point.

Imports `knowledge.embeddings`. No store touches the ORM but the table store.
"""
