"""PDF, by PDFium: characters to lines (`lines`), tables (`rules`, `tables`), order and running heads (`layout`,
`furniture`), text (`assembly`).

`document.parse_pdf` is the door. Lengths are points from the top left corner of the page as it is shown.
"""
