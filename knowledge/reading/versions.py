"""Which reader read a document: a format's number goes up when its reader gives other text, or more, of the same file.

Documents of an older number are read again when their file is added again, or by `reread_documents`.
"""

from django.db.models import Q

from knowledge.models import Document, SourceType

#: 1 for PDF: read by PDFium, with tables, pages and boxes; for the others: anchors, paths, tables, code and titles
#: kept, and for HTML what stands around the content left out. 2: charts, diagrams, fields and merged cells of Office
#: files, hidden text left out; escaped marks in headings and padded tables of Markdown; lists of dotted names of HTML.
#: 3: titles of HTML's boxes of advice (« Note ») are no headings of what follows them. A format that is not named has
#: 0.
READER_VERSIONS = {
    SourceType.PDF: 1,
    SourceType.HTML: 3,
    SourceType.MARKDOWN: 2,
    SourceType.DOCX: 2,
    SourceType.PPTX: 2,
    SourceType.XLSX: 2,
}


def reader_version(source_type: str) -> int:
    return READER_VERSIONS.get(SourceType(source_type), 0) if source_type else 0


def is_read_by_newest(document: Document) -> bool:
    return document.reader_version >= reader_version(document.source_type)


def read_by_older() -> Q:
    """Of documents: those that today's reader of their format has not read."""
    found = Q(pk__in=[])
    for source_type, version in READER_VERSIONS.items():
        found |= Q(source_type=source_type, reader_version__lt=version)
    return found
