"""What people do in offices, in each format that has it: the cases and their right values stand in `office_kinds.json`."""

import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from knowledge.readers.registry import parse_document

_CASES = json.loads((Path(__file__).parent / "office_kinds.json").read_text(encoding="utf-8"))
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
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as written:
        for path, content in parts.items():
            written.writestr(path, content)
    return buffer.getvalue()


@pytest.mark.parametrize("case", _CASES["files"], ids=lambda case: f"{case['format']}: {case['kind']}")
def test_file_reads_as_people_see_it(case: dict[str, Any]) -> None:
    parsed = parse_document(built(case["format"], case["parts"]), filename=f"essai.{case['format']}")
    found = [f"{' > '.join(b.headings)}: {b.text}" if b.headings else b.text for b in parsed.blocks]
    assert found == case["blocks"]
    assert len(parsed.notices) == len(case["notices"])
    assert all(part in notice for part, notice in zip(case["notices"], parsed.notices, strict=True))


@pytest.mark.parametrize("kind", _CASES["runs"])
@given(styles=st.lists(st.sampled_from("plain raised struck linked boxed celled".split()), min_size=1, max_size=30))
@hypothesis_settings(max_examples=40, deadline=None)
def test_every_run_of_text_is_read_in_order_or_named(kind: str, styles: list[str]) -> None:
    forms = _CASES["runs"][kind]
    body = "".join(forms[style].replace("$", f"mot{100 + at}") for at, style in enumerate(styles))
    parts = {name: text.replace("$", body) for name, text in forms["parts"].items()}
    parsed = parse_document(built(kind, {**parts, "links": forms["links"]}), filename=f"a.{kind}")
    said = re.findall(r"mot(\d+)", " ".join(block.text for block in parsed.blocks))
    assert said == [str(100 + at) for at, style in enumerate(styles) if style != "struck"]
    assert bool(parsed.notices) == ("struck" in styles)
