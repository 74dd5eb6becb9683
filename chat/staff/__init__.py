"""What staff see and do: the admin of conversations, why an answer was given, evaluation. No entry point."""
