"""Files to structured text. `base.py` has the types, `registry.py` the door."""
