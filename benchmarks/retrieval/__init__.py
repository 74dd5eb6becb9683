"""How often dense retrieval finds the right text, for each local embedding model."""
