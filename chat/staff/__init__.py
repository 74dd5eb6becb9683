"""What staff see and do: the admin of conversations, why an answer was given, evaluation and calibration.

Imports `runs` and what lies under it; no entry point.
"""
