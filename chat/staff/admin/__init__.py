"""The admin of conversations and turns, keys and tokens, and its further pages."""
