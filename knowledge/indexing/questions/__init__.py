"""Questions for passages that answer already: which first, what they may cost, how they are asked for and kept.

A document is found by its text as soon as that is embedded. A job of its own (`BuildKind.QUESTIONS`) then has a model
write the questions, within the site's budget. Nothing here knows of jobs: `knowledge.indexing.jobs` calls it.
"""
