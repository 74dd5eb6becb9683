"""The same questions typed in other ways: what is found, refused, answered and asked, for both local models.

`typing.py` makes the versions, `run.py` measures them. Imports the production search and steps; nothing imports it.
"""
