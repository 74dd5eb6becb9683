"""A stored file to chunk drafts: parsers and chunker, in a child process with limits.

`isolation` is the door. Imports `knowledge.parsing` and `knowledge.models`; asks neither the database nor the network.
"""
