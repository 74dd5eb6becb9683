"""A stored file to chunk drafts: parsers and chunker, in a child process with limits."""
