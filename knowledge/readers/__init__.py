"""Files to structured text. `base` has the types, `registry` is the entry; a module for each format.

Imports `knowledge.models` and `knowledge.language`; asks neither the database nor the network.
"""
