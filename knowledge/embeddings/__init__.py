"""Embedding backends: texts to unit vectors. `base.py` has the protocol and the loader."""
