"""The first steps of the path, before anything is looked up: a courtesy, how it was typed, what it leans on."""
