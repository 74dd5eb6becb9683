"""What stands raised, struck, numbered or linked means in a passage what it means on the page."""

import pytest

from knowledge.readers.base import ParsedDocument, raised
from knowledge.readers.registry import parse_document


def read(text: str, name: str) -> ParsedDocument:
    return parse_document(f"{text}\n".encode(), filename=name)


def said(text: str, name: str) -> str:
    return "\n\n".join(block.text for block in read(text, name).blocks)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("4|1| €", "4 (1) €"), ("80|3| €", "80 (3) €"), ("25|2| centimes", "25 (2) centimes"), ("6|(a)| ans", "6 (a) ans"),
        ("300 m|2|", "300 m²"), ("2 km|2|", "2 km²"), ("10|3| litres", "10³ litres"), ("2,10|1| €", "2,10 (1) €"),
        ("1|er| mai", "1er mai"), ("2|ème| étage", "2ème étage"), ("M|me| X", "Mme X"), ("la nuit|2| :", "la nuit (2) :"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["a.html", "a.md", "b.md"])
def test_raised_note_is_no_part_of_the_number_before_it(written: str, shown: str, name: str) -> None:
    before, note, after = written.split("|")
    up = f"^{note}^" if name == "b.md" else f"<sup>{note}</sup>"
    assert said(f"{before}{up}{after}", name) == shown
    assert before + raised(before, note) + after == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<p>Nom : <input value=Vif> ans : <input type=number value=12><input type=hidden value=x></p>", "Nom : Vif ans : 12"),
        ("<p>Jour : <select><option>lundi<option selected>mardi</select>.</p>", "Jour : mardi ."),
        ("<p>Motif : <textarea>Travaux\nrue Haute</textarea></p>", "Motif : Travaux rue Haute"),
        ("<p>Voir <img alt='Plan : par la cour'> ici<img alt=IMG_1.JPG><a href=/x><img alt=Agrandir></a></p>", "Voir [Plan : par la cour] ici"),
    ],
)  # fmt: skip
def test_fields_and_pictures_say_what_they_show(text: str, shown: str) -> None:
    assert said(text, "a.html") == shown


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.html", "<p>Prix : <s>12 €</s> 15 €</p>"), ("a.html", "<p>Prix : <del>12 €</del> <ins>15 €</ins></p>"),
        ("a.html", "<p>Prix : <strike>12 €</strike> 15 €</p>"), ("a.md", "Prix : ~~12 €~~ 15 €"), ("a.md", "Prix : ~12 €~ 15 €"),
        ("a.html", "<p>Prix : <span style='color:red; text-decoration: line-through red'>12 €</span> 15 €</p>"),
        ("a.md", "Prix : <s>12 €</s> 15 €"), ("a.html", "<ul><li>Prix : <s>12 €</s> 15 €</li></ul>"),
        ("a.html", "<style>.x, p .v {text-decoration: line-through}</style>Prix : <b class=v>12 €</b> 15 €"), ("a.md", "| Poste | Prix : |\n|---|---|\n| Repas | ~~12 €~~ 15 € |"),
    ],
)  # fmt: skip
def test_struck_text_is_left_out_and_said(name: str, text: str) -> None:
    parsed = read(text, name)
    assert parsed.notices == ("texte barré, laissé de côté : « 12 € »",)
    assert "12" not in parsed.blocks[0].text
    assert "15 €" in parsed.blocks[0].text


@pytest.mark.parametrize(
    ("markup", "lines"),
    [
        ("<ol start=3><li>a<li>b</ol>", ["3. a", "4. b"]),
        ("<ol><li>a<li value=6>b<li>c</ol>", ["- 1. a", "- 6. b", "- 7. c"]),
        ("<ol type=a><li>a<li>b</ol>", ["- a. a", "- b. b"]),
        ("<ol type=I start=4><li>a<li>b</ol>", ["- IV. a", "- V. b"]),
        ("<style>ol.r{list-style:upper-roman}</style><ol class=r><li>a<li>b</ol>", ["- I. a", "- II. b"]),
        ("<ol reversed><li>a<li>b</ol>", ["- 2. a", "- 1. b"]),
        ("<ol><li>a<ol type=A><li>x<li>y</ol><li>b</ol>", ["1. a", "   - A. x", "   - B. y", "2. b"]),
    ],
)
def test_list_is_numbered_as_a_browser_shows_it(markup: str, lines: list[str]) -> None:
    assert said(markup, "a.html").splitlines() == lines


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("a.html", "<a href='tel:+33475001122'>standard</a>", "standard (+33475001122)"),
        ("a.html", "<a href='tel:+33475001122'>04 75 00 11 22</a>", "04 75 00 11 22"),
        ("a.html", "<a href='f/a.pdf'>formulaire</a>", "formulaire (f/a.pdf)"),
        ("a.html", "<base href='https://v.example/x/'><a href='../a (1).pdf'>ici</a>", "[ici](https://v.example/a%20%281%29.pdf)"),
        ("a.html", "<a href='#bas'>bas</a> <a href='javascript:x()'>x</a>", "bas x"),
        ("https://v.example/d/p.html", "<a href='/a.pdf'>ici</a>", "[ici](https://v.example/a.pdf)"),
        ("https://v.example/d/p.html", "<a href='q.html#z'>là</a>", "[là](https://v.example/d/q.html#z)"),
        ("a.md", "[ici][R] et [r][], [R]\n\n[r]: https://v.example/z", "[ici](https://v.example/z) et [r](https://v.example/z), [R](https://v.example/z)"),
        ("a.md", "[page](b.md#x) [carte](plan.pdf) <https://v.example>", "page carte (plan.pdf) https://v.example"),
    ],
)  # fmt: skip
def test_link_keeps_where_it_leads(name: str, text: str, shown: str) -> None:
    assert said(text, name) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("De&#x20;9&nbsp;h \\- à\\\nmidi", "De 9\xa0h - à\nmidi"),
        ("n°12669*02 ou n°14879*01", "n°12669*02 ou n°14879*01"),
        ("+ 0,92 % en mai", "+ 0,92 % en mai"),
        ('{% hint style="info" %}\nFermé le lundi.\n{% endhint %}', "Fermé le lundi."),
        ('{% tab title="Été" %}\nDe 9 h.\n{% endtab %}', "Été De 9 h."),
        ('{% image "a.png", alt="Plan du quai" %} Texte {{ page.title }}{: .grand}', "Plan du quai Texte"),
        ('[{"src": "a.jpg", "alt": "Le quai"}]\n\nTexte', "Le quai\n\nTexte"),
        ("{{< figure src='a.png' >}}\n\n::: tip Conseil\nVenez tôt.\n:::", "**Conseil**\n\nVenez tôt."),
        ("> [!NOTE]\n> Venez tôt.", "Venez tôt."),
        ("Un\n\n{% comment %}\nsecret\n{% endcomment %}\n\nDeux", "Un\n\nDeux"), ("import Titre from '../Titre'\nimport { a, b } from \"c\";\n\nVenez tôt.", "Venez tôt."),
        ('Le [quai](https://a.example){:class="lien" .b}\n\n1. {.si} Ouvert', "Le [quai](https://a.example)\n\n1. Ouvert"),
        ('=== "Web"\n\n    Ouvrez :material-check:{ .vert } le [quai](https://a.example){ .md-button }\n\n![](a.png){ align=right }', "**Web**\n\nOuvrez le [quai](https://a.example)"),
        ("Plan ![fr-tag-photo.png](a.png) ![Le quai](b.png), de 9:30 à 10:30, voir :warning: et h::a:", "Plan [Le quai], de 9:30 à 10:30, voir et h::a:"),
        ("![Untitled](1.png) ![Untitled](2.png)\n\n![Untitled](3.png) ![Untitled](4.png)\n\nLe [plan](./images/a.jpg)", "Le plan"),
        ("<figure markdown>\n  ![Le quai](a.png){ width=400 }\n</figure>", "Le quai"),
        ("Titre\n===\n\nTexte {align=x} ici", "Texte {align=x} ici"),
        ("Import des données depuis \"clients.csv\"", "Import des données depuis \"clients.csv\""),
        ("La variable {n=3} vaut `${PORT=8000}` ou `{.b}`.", "La variable {n=3} vaut `${PORT=8000}` ou `{.b}`."),
        ("Prix[^1] : 4 €[^b]\n\n[^1]: Gratuit\n[^b]: Hors été", "Prix (1) : 4 € (b)\n\n(1) Gratuit\n\n(b) Hors été"),
        ("[[Page|Le port]], ==4 €==, H~2~O, `[^a-z] ~~x~~ {{ y }}`", "Le port, 4 €, H2O, `[^a-z] ~~x~~ {{ y }}`"),
        ("```\n{% if x %} [^1] ~~a~~\n```", "```\n{% if x %} [^1] ~~a~~\n```"),
    ],
)  # fmt: skip
def test_markdown_of_wikis_and_generators_is_its_text_or_nothing(text: str, shown: str) -> None:
    assert said(text, "a.md") == shown
