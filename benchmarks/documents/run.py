"""Documents as they really are: what is read of each kind. `python -m benchmarks.documents.run [FOLDER]` runs the PDF
sets.

FOLDER (or REPONDANT_DOCUMENTS) holds the unpacked packages that README.md names; without it, it says so and ends.
"""

import os
import sys

from benchmarks.documents import pdf


def main() -> None:
    folder = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("REPONDANT_DOCUMENTS", "")
    if not folder:
        print("Unpack the packages of benchmarks/documents/README.md, and name their folder.")
        return
    pdf.main([folder, *sys.argv[2:]])


if __name__ == "__main__":
    import django

    django.setup()
    main()
