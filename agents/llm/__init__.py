"""Language models behind one protocol. `base.py` has the protocol and the loader."""
