"""Small Office files, and how tests break them."""

import io
import zipfile
from collections.abc import Mapping
from typing import Any

import docx
import openpyxl
import pptx
import pytest

from knowledge.errors import UnreadableDocumentError
from knowledge.readers.registry import parse_document

_SCHEMAS = "http://schemas.openxmlformats.org"
_OFFICE = f"{_SCHEMAS}/officeDocument/2006/relationships"
_SPACES = {
    "w": f"{_SCHEMAS}/wordprocessingml/2006/main",
    "a": f"{_SCHEMAS}/drawingml/2006/main",
    "p": f"{_SCHEMAS}/presentationml/2006/main",
    "x": f"{_SCHEMAS}/spreadsheetml/2006/main",
    "r": _OFFICE,
}
#: By format: the main part, its type, and where links of its text are told.
_MAIN = {
    "docx": ("word/document", "wordprocessingml.document", "word/document"),
    "pptx": ("ppt/presentation", "presentationml.presentation", "ppt/slides/slide1"),
    "xlsx": ("xl/workbook", "spreadsheetml.sheet", "xl/worksheets/sheet1"),
}
_ROOTS = {
    "styles": "w:styles", "numbering": "w:numbering", "header": "w:hdr", "footer": "w:ftr", "footnotes": "w:footnotes",
    "slide": "p:sld", "worksheet": "x:worksheet", "sheetstyles": "x:styleSheet",
}  # fmt: skip
_ALONE = {
    "docx": "",
    "pptx": '<p:sldIdLst><p:sldId id="256" r:id="slide"/></p:sldIdLst>',
    "xlsx": '<x:sheets><x:sheet name="Tarifs" sheetId="1" r:id="worksheet"/></x:sheets>',
}


def saved(file: Any) -> bytes:
    buffer = io.BytesIO()
    file.save(buffer)
    return buffer.getvalue()


def refusal(data: bytes, filename: str) -> str:
    with pytest.raises(UnreadableDocumentError) as caught:
        parse_document(data, filename=filename)
    return str(caught.value.public_message)


def rewritten(data: bytes, name: str, content: bytes) -> bytes:
    """An archive with one part replaced or added."""
    return zipped({**unzipped(data), name: content})


def unzipped(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {entry: archive.read(entry) for entry in archive.namelist()}


def zipped(parts: Mapping[str, bytes | str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def word() -> bytes:
    document = docx.Document()
    document.add_heading("Horaires", 1)
    document.add_paragraph("Les bureaux ouvrent :")
    document.add_paragraph("le lundi", style="List Bullet")
    return saved(document)


def excel() -> bytes:
    workbook = openpyxl.Workbook()
    workbook.active.append(["Salle", "Tarif"])
    workbook.active.append(["Petite", 12.5])
    return saved(workbook)


def powerpoint() -> bytes:
    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[1])
    slide.shapes.title.text, slide.placeholders[1].text = "Bienvenue", "Rendez-vous à neuf heures."
    return saved(presentation)


def element(name: str, inner: str) -> str:
    spaces = "".join(f' xmlns:{prefix}="{space}"' for prefix, space in _SPACES.items())
    return f"<{name}{spaces}>{inner}</{name}>"


def relationships(targets: dict[str, tuple[str, str]]) -> str:
    rows = ""
    for key, (kind, target) in targets.items():
        mode = ' TargetMode="External"' if kind == "hyperlink" else ""
        rows += f'<Relationship Id="{key}" Type="{_OFFICE}/{kind}" Target="{target}"{mode}/>'
    return f'<Relationships xmlns="{_SCHEMAS}/package/2006/relationships">{rows}</Relationships>'


def built(kind: str, given: dict[str, Any]) -> bytes:
    """A file of a format from the insides of its parts; `links` are addresses by their identifier."""
    main, name, holder = _MAIN[kind]
    root = {"docx": "w:document", "pptx": "p:presentation", "xlsx": "x:workbook"}[kind]
    inner = f"<w:body>{given['body']}</w:body>" if kind == "docx" else _ALONE[kind]
    parts = {f"{main}.xml": element(root, inner)}
    types = {f"{main}.xml": f"{name}.main"}
    own: dict[str, tuple[str, str]] = {}
    for part in given.keys() & _ROOTS.keys():
        path = (
            f"{holder}.xml"
            if part in ("slide", "worksheet")
            else f"{main.split('/')[0]}/{part.removeprefix('sheet')}.xml"
        )
        parts[path] = element(_ROOTS[part], given[part])
        types[path] = f"{name.split('.')[0]}.{part.removeprefix('sheet')}"
        own[part] = part.removeprefix("sheet"), f"/{path}"
    told = {f"{main}.xml": own}
    told.setdefault(f"{holder}.xml", {}).update(
        {key: ("hyperlink", target) for key, target in given.get("links", {}).items()}
    )
    for path, targets in told.items():
        folder, file = path.rsplit("/", 1)
        parts[f"{folder}/_rels/{file}.rels"] = relationships(targets)
    parts["_rels/.rels"] = relationships({"rId1": ("officeDocument", f"{main}.xml")})
    rows = "".join(
        f'<Override PartName="/{path}" ContentType="application/vnd.openxmlformats-officedocument.{said}+xml"/>'
        for path, said in types.items()
    )
    rows += '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    parts["[Content_Types].xml"] = f'<Types xmlns="{_SCHEMAS}/package/2006/content-types">{rows}</Types>'
    return zipped(parts)
