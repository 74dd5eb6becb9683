"""PDF, by PDFium: characters to lines (`lines`), tables (`tables`), order and running heads (`layout`), text (`assembly`).

`document.parse_pdf` is the entry. Lengths are points from the top left corner of the page as it is shown.
"""
