"""What a search does with the category that its passages agree on, as staff chose."""

from django.test import TestCase

from agents.effective import effective_config
from agents.models import Deployment
from chat.models import AnswerSource
from knowledge.indexing.path import index_documents, store_document
from knowledge.models import Category
from knowledge.search import search_as
from tests.factories import make_agent, make_deployment, make_learned
from tests.integration.chat.turn.test_path import ask

POOLS = {
    name: f"# Piscine {name}\n\nLe bassin {name} ouvre à huit heures, tarif de la piscine affiché."
    for name in ("nord", "sud", "ouest", "est")
}
TOYS = {"jouets": "# Piscine à balles\n\nElle ouvre à neuf heures, tarif de la piscine compris."}
QUESTION = "À quelle heure ouvre le bassin de la piscine, et à quel tarif ?"


class CategoryUseTests(TestCase):
    def setUp(self) -> None:
        self.deployment = make_deployment(make_agent())
        agent = self.deployment.agent
        stored = [
            store_document(agent=agent, name=f"{name}.md", data=text.encode(), category=category).document
            for said, files in (("Sport", POOLS), ("Famille", TOYS))
            for category in [Category.objects.create(name=said)]
            for name, text in files.items()
        ]
        index_documents(agent=agent, documents=stored)

    def categories(self, use: str) -> list[str]:
        self.deployment.config_overlay = {"category_use": use, "match_count": 6}
        self.deployment.save()
        found = search_as(effective_config(self.deployment), QUESTION, limit=6)
        return [passage.category for passage in found.passages(6)]

    def test_category_informs_only_unless_staff_say_otherwise(self) -> None:
        assert effective_config(self.deployment).category_use == "off"
        assert "Famille" in self.categories("off")

    def test_filter_keeps_the_category_and_what_staff_validated(self) -> None:
        make_learned(self.deployment.agent, question="Le tarif de la piscine ?", answer="5 euros.")
        assert set(self.categories("filter")) == {"Sport", "FAQ"}

    def test_a_choice_of_an_earlier_release_only_informs(self) -> None:
        assert self.categories("boost") == self.categories("off")

    async def test_turn_searches_as_staff_chose(self) -> None:
        overlay = {"category_use": "filter", "extractive_passages": 6}
        await Deployment.objects.filter(pk=self.deployment.pk).aupdate(config_overlay=overlay)
        result, _ = await ask(self.deployment, QUESTION)
        assert result.answer.source == AnswerSource.EXTRACTIVE
        (line,) = [line for line in result.trace.lines if line["step"] == "search"]
        assert (line["outcome"], line["detail"]) == ("filter", "Sport")
        assert len(result.answer.sources) == len(POOLS)
        assert "Piscine à balles" not in {source["title"] for source in result.answer.sources}
