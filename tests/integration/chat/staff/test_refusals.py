"""The page that says which stored answers came near and were refused, and why."""

from typing import Any

from django.core.cache import cache
from django.test import TestCase
from django.urls import reverse
from django.utils import translation

from chat.models import Turn
from chat.staff.explanation import recent_refusals
from faqs.recall import stored_refusal
from faqs.second_key.agreement import compare_questions
from tests.admin_pages import client_of, make_staff, queries_with_one_and_ten_rows, superuser_client
from tests.constants import override
from tests.factories import make_conversation, make_exchange

PAGE = "admin:chat_turn_refusals"
ASKED = "Quel est le tarif en 2024 ?"


def refused(step: str = "direct_answer", reason: str = "nombre : 2023 ≠ 2024") -> dict[str, Any]:
    outcome = {"direct_answer": "second_key_refused", "memory_guard": "refused"}[step]
    detail = f"Quel est le tarif en 2023 ? : Les deux questions diffèrent ({reason})."
    return {"step": step, "outcome": outcome, "score": 0.97, "detail": detail}


class RefusalsTests(TestCase):
    def setUp(self) -> None:
        cache.clear()
        self.conversation = make_conversation()

    def page(self, **query: str) -> str:
        response = superuser_client().get(reverse(PAGE), query)
        assert response.status_code == 200
        return response.content.decode()

    def test_both_questions_and_the_reason_are_shown(self) -> None:
        turn = make_exchange(self.conversation, ASKED, "…", trace=[refused()])
        page = self.page()
        assert ASKED in page
        assert "Quel est le tarif en 2023 ?" in page
        assert "nombre : 2023 ≠ 2024" in page
        assert reverse("admin:chat_turn_change", args=[turn.pk]) in page

    def test_a_reason_is_read_in_the_language_of_its_reader(self) -> None:
        stored = "Peut-on payer par carte ?"
        clashes = compare_questions(stored, "Comment payer par carte ?").disagreements
        line = {**refused(), "detail": "", "refused": [stored_refusal(stored, 0.97, "second_key", clashes)]}
        make_exchange(self.conversation, "Comment payer par carte ?", "…", trace=[line])
        [french] = recent_refusals(Turn.objects.all())[0].reasons
        assert french == (
            "Peut-on payer par carte ? (0,970) : Les deux questions diffèrent "
            "(type de question : oui ou non ≠ comment)."
        )
        with translation.override("en"):
            [english] = recent_refusals(Turn.objects.all())[0].reasons
        assert "The two questions differ" in english
        assert "(0.970)" in english

    def test_served_and_far_questions_are_no_refusals(self) -> None:
        for outcome in ("served", "no_candidate"):
            line = {**refused(), "outcome": outcome}
            make_exchange(self.conversation, f"{outcome} ?", "…", trace=[line])
        assert recent_refusals(Turn.objects.all()) == []
        assert "Aucun refus." in self.page()

    def test_refusals_are_filtered_by_text_and_by_step(self) -> None:
        make_exchange(self.conversation, ASKED, "…", trace=[refused()])
        other = [refused("memory_guard", "négation : ∅ ≠ pas")]
        make_exchange(self.conversation, "Faut-il ne pas payer ?", "…", trace=other)
        assert [each.question for each in recent_refusals(Turn.objects.all(), text="2023 ≠ 2024")] == [ASKED]
        assert [each.step for each in recent_refusals(Turn.objects.all(), step="memory_guard")] == ["memory_guard"]
        assert [each.step for each in recent_refusals(Turn.objects.all(), text="NÉGATION")] == ["memory_guard"]
        page = self.page(text="négation", step="memory_guard")
        assert "ne pas payer" in page
        assert ASKED not in page

    @override(REFUSALS_MAX_TURNS=3)
    def test_only_the_latest_turns_are_read(self) -> None:
        for number in range(5):
            make_exchange(self.conversation, f"Numéro {number} ?", "…", trace=[refused()])
        assert [each.question for each in recent_refusals(Turn.objects.all())] == [
            "Numéro 4 ?",
            "Numéro 3 ?",
            "Numéro 2 ?",
        ]

    def test_page_needs_the_right_to_read_conversations(self) -> None:
        stranger = client_of(make_staff("faqs.view_cachedresponse"))
        assert stranger.get(reverse(PAGE)).status_code == 403
        memory = reverse("admin:faqs_cachedresponse_changelist")
        assert reverse(PAGE) not in stranger.get(memory).content.decode()
        assert reverse(PAGE) in superuser_client().get(memory).content.decode()

    def test_what_people_wrote_is_escaped(self) -> None:
        make_exchange(self.conversation, "<script>x</script> ?", "…", trace=[refused()])
        assert "<script>x</script>" not in self.page()

    def test_number_of_queries_does_not_grow(self) -> None:
        client = superuser_client()

        def add() -> None:
            make_exchange(make_conversation(), ASKED, "…", trace=[refused()])

        one, ten = queries_with_one_and_ten_rows(client, reverse(PAGE), add)
        assert one == ten
