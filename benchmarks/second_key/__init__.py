"""How long the second key takes for a pair of questions."""
