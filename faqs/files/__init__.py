"""Validated answers as CSV (`answers_csv`, `importing`, `previews`), and the memory as the seed's SQLite table
(`memory_table`).
"""
