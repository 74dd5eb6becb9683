"""What the demonstration holds in memory."""
