"""Whether a message leans on what was said before it. Rules over words: imports no step and no row."""
