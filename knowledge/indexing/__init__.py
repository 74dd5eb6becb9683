"""An agent's documents to the points of its indexes, and what keeps them in step.

`path` tells what happens to one document, top to bottom; `rebuild` fills a whole index anew; `refresh` reads pages of
the web again; `editing` and `merging` keep what staff changed; `jobs` runs all three as rows. Imports the rest of
`knowledge` but its admin, tasks and signals.
"""
