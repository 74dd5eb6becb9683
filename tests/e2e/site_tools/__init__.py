"""An app of the served site, for its two tools."""
