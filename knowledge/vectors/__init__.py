"""Vector stores, and what points say. `base` has the protocol and the loader, `payloads` the fields of a point,
`vocabularies` the words of the texts.

Imports `knowledge.embeddings`. No store touches the ORM but the table store.
"""
