"""Documents to vectors and back: parsing, chunks, embeddings, vector stores, indexing, search.

Public: `models`, `search`, `categories`, `calibration`, `indexing`, `embeddings`, `vectors`.
Imports `agents` only.
"""
