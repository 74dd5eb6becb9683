"""HTML pages: what is content, and the questions that markup declares."""

from knowledge.readers.base import ParsedDocument
from knowledge.readers.html import html_fragment_text
from knowledge.readers.registry import parse_document


def parse(body: str, head: str = "") -> ParsedDocument:
    page = f"<!doctype html><html><head><meta charset='utf-8'>{head}</head><body>{body}</body></html>"
    return parse_document(page.encode(), filename="page.html")


def test_scripts_menus_and_footers_are_dropped() -> None:
    parsed = parse("<nav>Menu</nav><h1>Titre</h1><p>Texte.</p><script>x()</script><style>p{}</style><footer>©</footer>")
    assert parsed.title == "Titre"
    assert [block.text for block in parsed.blocks] == ["Texte."]


def test_headings_lists_and_tables_keep_their_structure() -> None:
    parsed = parse(
        "<h1>T</h1><h2>A</h2><ul><li>un<ul><li>deux</li></ul></li></ul>"
        "<table><tr><th>x</th><th>y</th></tr><tr><td>1</td><td>2 | 3</td></tr></table>"
    )
    assert [(block.kind, block.headings) for block in parsed.blocks] == [("list", ("A",)), ("table", ("A",))]
    assert parsed.blocks[0].text == "- un\n  - deux"
    assert parsed.blocks[1].text == "| x | y |\n| --- | --- |\n| 1 | 2 \\| 3 |"


def test_hidden_cells_of_a_table_are_left_out_and_named() -> None:
    parsed = parse(
        "<table><tr><th>Nom</th><th hidden>Salaire</th></tr><tr><td>Ana</td><td style='display: none'>2 900 €</td></tr>"
        "<tr style='visibility:collapse'><td>Léo</td><td>3 100 €</td></tr></table>"
        "<div hidden><p>Réponse repliée.</p></div>"
    )
    text = "\n".join(block.text for block in parsed.blocks)
    assert "Ana" in text
    assert "Réponse repliée." in text
    assert not any(hidden in text for hidden in ("Salaire", "2 900", "Léo", "3 100"))
    assert parsed.notices == ("tableaux : cellules masquées, ignorées : 4",)


def test_a_cell_that_is_not_visible_keeps_its_place_and_hidden_groups_of_rows_go() -> None:
    parsed = parse(
        "<table><tr><th>Nom</th><th>Salaire</th><th>Ville</th></tr>"
        "<tr><td>Ana</td><td style='visibility: hidden'>2 900 €</td><td>Paris</td></tr>"
        "<tbody hidden><tr><td>Léo</td><td>3 100 €</td><td>Lyon</td></tr></tbody></table>"
    )
    assert parsed.blocks[0].text.splitlines()[-1] == "| Ana |  | Paris |"
    assert parsed.notices == ("tableaux : cellules masquées, ignorées : 4",)


def test_details_and_definitions_that_ask_are_questions() -> None:
    parsed = parse(
        "<details><summary>Qui signe ?</summary><p>Le maire.</p></details>"
        "<dl><dt>Quand ?</dt><dd>Demain.</dd><dt>TVA</dt><dd>Une taxe.</dd></dl>"
    )
    assert [(block.kind, block.question, block.text) for block in parsed.blocks] == [
        ("qa", "Qui signe ?", "Le maire."),
        ("qa", "Quand ?", "Demain."),
        ("prose", "", "**TVA**\n\nUne taxe."),
    ]


def test_declared_encoding_is_followed() -> None:
    page = "<meta charset='iso-8859-1'><p>Été à Nîmes.</p>".encode("latin-1")
    assert parse_document(page, filename="p.htm").blocks[0].text == "Été à Nîmes."
    stale = "<?xml version='1.0' encoding='iso-8859-1'?><meta charset='utf-8'><p>Été à Nîmes.</p>".encode()
    assert parse_document(stale, filename="p.htm").blocks[0].text == "Été à Nîmes."


def test_terms_in_groups_of_groups_keep_what_is_said_of_them() -> None:
    row = "<div><div><dt>Tarif plein</dt></div><div><dd>12 €</dd></div></div>"
    [block] = parse_document(f"<dl>{row}</dl>".encode(), filename="p.htm").blocks
    assert block.text == "**Tarif plein**\n\n12 €"


def test_fragment_becomes_light_markdown_without_html() -> None:
    fragment = (
        "<div><p>Voir <a href='https://exemple.fr/a'>ici</a>, <strong>vite</strong>.<br/>Merci.</p>"
        "<a href='javascript:alert(1)'>non</a><ol><li>un</li><li>deux</li></ol></div>"
    )
    assert html_fragment_text(fragment) == (
        "Voir [ici](https://exemple.fr/a), **vite**.\nMerci.\n\nnon\n\n1. un\n2. deux"
    )


def test_external_entities_are_not_resolved() -> None:
    page = b'<!DOCTYPE html [<!ENTITY x SYSTEM "file:///etc/passwd">]><html><p>a &x; b</p></html>'
    text = parse_document(page, filename="p.html").blocks[0].text
    assert "root" not in text


SITE_PAGE = """<!doctype html><html lang="fr"><head><title>Carte de lecteur | Ville de Brume</title></head><body>
<a class="skip-link" href="#c">Aller au contenu</a>
<div id="tarteaucitronRoot" role="dialog" aria-label="Cookies"><p>Nous utilisons des cookies pour mesurer l’audience.</p><button>Tout accepter</button><a href="/c">Personnaliser</a></div>
<header class="site-header" role="banner"><div class="logo">Ville de Brume</div><div role="navigation"><ul><li><a href="/">Accueil</a></li><li><a href="/d">Démarches</a></li></ul></div><form role="search"><label>Rechercher</label><input></form></header>
<ol class="breadcrumb" aria-label="Fil d’Ariane"><li><a href="/">Accueil</a></li><li>Carte</li></ol>
<div class="content"><article><header><h1>Carte de lecteur</h1><p>Mis à jour le 3 mars 2026</p></header>
<p>La carte coûte 12 euros par an.</p><h2>Qui peut s’inscrire ?</h2><p>Tout habitant de la ville.</p>
<p>Le site dépose un cookie de session quand vous réservez.</p>
<table><tr><th>Âge</th><th>Prix</th></tr><tr><td>Moins de 18 ans</td><td>Gratuit</td></tr></table></article>
<aside class="related"><h3>À lire aussi</h3><ul><li><a href="/x">Horaires de la piscine</a></li></ul></aside></div>
<div class="share-buttons"><a href="#">Partager sur Facebook</a></div>
<div class="cookie-banner cc-window"><span>En poursuivant, vous acceptez les cookies.</span><a>OK</a></div>
<div hidden>Texte caché</div>
<div role="contentinfo" class="footer"><p>Mentions légales</p><p>© 2026 Ville de Brume</p></div></body></html>"""


def test_page_of_a_site_without_main_is_read_without_what_stands_around_it() -> None:
    parsed = parse_document(SITE_PAGE.encode(), filename="carte.html")

    said = "\n".join(" > ".join((*block.headings, block.text)) for block in parsed.blocks)
    assert parsed.title == "Carte de lecteur"
    for kept in ("12 euros", "Tout habitant", "cookie de session", "Gratuit", "3 mars", "Texte caché"):
        assert kept in said
    for around in (
        *("Accueil", "Démarches", "Rechercher", "audience", "acceptez", "Mentions", "Partager"),
        *("Aller au contenu", "piscine", "Personnaliser"),
    ):
        assert around not in said


def test_page_about_cookies_is_content_and_so_is_a_page_of_nothing_but_a_banner() -> None:
    about = "<div class='cookie-policy'><h1>Nos cookies</h1><p>Ils durent 13 mois.</p></div>"
    assert "13 mois" in parse_document(about.encode(), filename="c.html").blocks[0].text
    banner = "<div role='banner'>Le site est fermé lundi.</div>"
    assert "fermé" in parse_document(banner.encode(), filename="b.html").blocks[0].text


def test_backslashes_and_marks_of_labels_are_text() -> None:
    parsed = parse(
        "<h1>T</h1><h2>Le dossier C:\\Users\\bob</h2><p>x</p><h2>object.__init__ et *args</h2><p>y</p>"
        "<dl><dt><code>\\df</code></dt><dd>Les fonctions.</dd></dl>"
    )
    assert [block.headings for block in parsed.blocks[:2]] == [
        ("Le dossier C:\\Users\\bob",),
        ("object.__init__ et *args",),
    ]
    assert parsed.blocks[2].text == "**\\df**\n\nLes fonctions."


def test_code_keeps_its_margin_and_its_marks() -> None:
    parsed = parse(
        "<h1>T</h1><pre><code class='language-sql'>  SELECT 1\n  FROM t</code></pre>"
        "<div class='highlight-python3 notranslate'><div class='highlight'><pre>```\nx</pre></div></div>"
    )
    assert [block.text for block in parsed.blocks] == ["```\n  SELECT 1\n  FROM t\n```", "````\n```\nx\n````"]


def test_text_of_lists_between_and_after_their_items_is_kept_in_order() -> None:
    parsed = parse("<ul><li>un<ul><li>deux</li></ul>trois</li>quatre<li><ol><li>cinq</li></ol></li></ul>")
    words = " ".join(parsed.blocks[0].text.replace("-", " ").replace("1.", " ").split())
    assert words == "un deux trois quatre cinq"
