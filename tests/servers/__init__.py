"""Servers on loopback that the tests talk to: models, embeddings, MCP tools, a web site, PostgreSQL and Redis.

Each is started by a context manager, on a port of its own. Only the embedding server reads the project: it serves its
hashing embedder.
"""
