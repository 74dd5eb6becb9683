"""Chunks to points: both indexing methods, generations, jobs."""
