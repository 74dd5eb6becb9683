"""HTML: `page` is the door, `surroundings` what is not content, `site` what the pages of one site have in common,
`reader` and `tables` the text. Nothing is fetched, no entity is resolved from outside, and what comes out holds no
HTML.
"""
