"""An index run against the bare embedding of the same texts."""
