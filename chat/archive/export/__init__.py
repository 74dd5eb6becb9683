"""A branch as a document to keep: Markdown and JSON (`documents`), PDF (`pdf`)."""
