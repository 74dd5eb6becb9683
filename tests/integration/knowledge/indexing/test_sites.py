"""Pages that come together: links from one to another are no content, and a citation opens its page at the heading."""

from django.test import TestCase, override_settings

from agents.models import Agent
from knowledge.indexing.path import index_documents, store_document
from knowledge.models import Chunk, UnitsOrigin
from knowledge.search import confirm_passages
from tests.factories import add_document, make_agent, search_index

PAGE = (
    "<html><head><title>Titre {n}</title></head><body><div class='haut'>{menu}</div><h1>Titre {n}</h1>"
    "<p>La page {n} parle de la piscine numéro {n}.</p><h2 id='prix'>Prix</h2><p>L’entrée coûte {n} euros.</p>"
    "</body></html>"
)
MENU = "<a href='p2.html'>Agenda</a> <a href='p3.html'>Annuaire</a> <a href='p4.html'>Accès</a>"


def opened(agent: Agent) -> str:
    found = search_index(agent, "Il faut compter trois semaines")
    return confirm_passages(found, agent_id=agent.pk).hits[0].url


class SiteTests(TestCase):
    @override_settings(PARSE_ISOLATED=True)
    def test_child_that_reads_is_told_the_pages(self) -> None:
        agent = make_agent()
        pages = [(f"site/p{n}.html", PAGE.format(n=n, menu=MENU).encode()) for n in range(2, 9)]
        documents = [store_document(agent=agent, name=name, data=data).document for name, data in pages]
        index_documents(agent=agent, documents=documents)
        said = " ".join(Chunk.objects.values_list("content", flat=True))
        assert "piscine numéro 5" in said
        assert "Annuaire" not in said

    def test_citation_opens_its_page_at_the_heading(self) -> None:
        agent = make_agent()
        body = "<h2 id='délais & suite'>Délais</h2><p>" + "Il faut compter trois semaines. " * 12
        page = f"<html><body><h1>Carte</h1><p>{'La carte est gratuite. ' * 12}</p>{body}</p></body></html>"
        address = "https://ville.exemple/carte"
        stored = store_document(agent=agent, name=address, data=page.encode(), suffix=".html")
        index_documents(agent=agent, documents=[stored.document])
        assert opened(agent) == address  # an identifier with a space is none

        page = page.replace("délais & suite", "délais")
        stored = store_document(agent=agent, name=address, data=page.encode(), suffix=".html")
        before = set(Chunk.objects.values_list("pk", flat=True))
        report = index_documents(agent=agent, documents=[stored.document])
        assert opened(agent) == f"{address}#d%C3%A9lais"
        assert (set(Chunk.objects.values_list("pk", flat=True)), report.embedded) == (before, 0)

    def test_passage_whose_headings_change_keeps_its_row_and_its_written_questions(self) -> None:
        agent = make_agent()
        text = "Les livres empruntés sont rendus sous trois semaines. " * 8
        add_document(agent, name="guide.md", text=f"# Guide\n\n## Prêt\n\n{text}")
        units = [{"question": "Quand rendre un livre ?", "answer": "Sous trois semaines."}]
        Chunk.objects.update(knowledge_units=units, units_origin=UnitsOrigin.GENERATED)
        before = Chunk.objects.get()

        add_document(agent, name="guide.md", text=f"# Guide\n\n## Le prêt\n\n{text}")
        after = Chunk.objects.get()
        assert (after.pk, after.knowledge_units) == (before.pk, units)
        assert after.parent_context == "Le prêt"
        assert after.content_hash != before.content_hash

    def test_passage_with_questions_of_its_document_keeps_its_row_whatever_the_order_of_their_keys(self) -> None:
        agent = make_agent()
        text = f"# Guide\n\n## Prêt\n\n### Quand rendre un livre ?\n\n{'Sous trois semaines. ' * 8}"
        add_document(agent, name="guide.md", text=text)
        before = Chunk.objects.get(units_origin=UnitsOrigin.FOUND)
        # As PostgreSQL gives them back.
        before.knowledge_units = [dict(sorted(unit.items())) for unit in before.knowledge_units]
        before.save()

        add_document(agent, name="guide.md", text=text.replace("## Prêt", "## Le prêt"))
        after = Chunk.objects.get(units_origin=UnitsOrigin.FOUND)
        assert after.pk == before.pk
        assert after.content_hash != before.content_hash
