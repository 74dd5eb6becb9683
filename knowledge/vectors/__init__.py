"""Vector stores. `base` has the protocol and the loader, `payloads` the fields of a point, `bm25` the words of texts;
`matrix` searches vectors in memory, for the table store (`table`) and the memory.

Imports `knowledge.embeddings`. No store touches the ORM but the table store.
"""
