"""What each threshold lets through, for each embedding model."""
