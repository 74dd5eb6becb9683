"""Documents to vectors and back: parsing, chunks, embeddings, vector stores, indexing, search; and the words of a
language.

A document's way in is told in `indexing/path.py`. Its way out of answers is `search`, which confirms every hit against
its row (an answer in memory: `faqs.origins`): what is deleted or disabled stops answering there, at once; its
points are removed later (`signals`, `indexing/points`).

Public: `models`, `search`, `thresholds`, `indexing`, `embeddings`, `vectors`, `language`, `question_tables`. Imports
`agents` only.
"""
