"""Which of the permitted tools a question needs: `base.select_tools`, and one backend for each mode."""
