"""A gate before an index of real documents."""
