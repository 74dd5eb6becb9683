"""Documents to vectors and back: parsing, chunks, embeddings, vector stores, indexing, search; and the words of a language.

Public: `models`, `search`, `categories`, `calibration`, `indexing`, `embeddings`, `vectors`, `language`.
Imports `agents` only.
"""
