"""How well selection finds tools on labelled questions, with the files that `evaluate_tools` reads; and how well a tool
is described (`quality`).
"""
