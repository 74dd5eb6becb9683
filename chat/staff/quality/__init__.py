"""What runs or reads turns to judge them; never a second copy of the path."""
