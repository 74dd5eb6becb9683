"""To be filled below."""
