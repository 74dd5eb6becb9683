"""Vector stores. `base.py` has the protocol and the loader."""
