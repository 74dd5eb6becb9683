"""Validated answers (`LearnedResponse`): written by `writing`, indexed by `indexing`, confirmed by `standing` before
they are given.

`precedence` has the newest human word win; `versions` and `restoring` keep the way back; `duplicates` tells what is
there already. Imports `faqs.memory`, `faqs.second_key`, `knowledge` and `agents`.
"""
