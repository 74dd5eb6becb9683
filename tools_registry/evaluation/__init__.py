"""How well selection finds tools on labelled questions: the measure, and the files that `evaluate_tools` reads."""
