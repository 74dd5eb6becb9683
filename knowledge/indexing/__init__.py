"""The indexing of an agent's documents, and what keeps the points in step with the rows.

`path` tells what happens to one document, top to bottom; `chunks` merges staff's changes with the document's; `points`
plans and writes the points; `questions` has a model write questions; `rebuild` fills a whole index anew; `refresh`
reads web pages again; `jobs` runs them as jobs. Imports the rest of `knowledge` but its admin and signals.
"""
