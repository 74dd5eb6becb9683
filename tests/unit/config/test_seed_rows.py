"""Every row of seed 002, sections I to X, and of seed 003 has a test that carries its name."""

import ast
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]

#: The headed rows of the two seeds, in their order and in their words, as a test's name can hold them.
ROWS = {
    "002-I": "boucle_bornee limite_de_relances arret_intelligent circuit_breaker qualite_de_reponse pas_de_tool_calls "
    "saturation efficacite prompt_systeme_optimise",
    "002-II": "en_tetes corps reponse atomicite premiere_relance relances_suivantes ordre_respecte idempotence "
    "nouvel_operation_id deduplication replay concurrence 409_conflict retry_automatique aucun_doublon",
    "002-III": "ne_jamais_reinjecter dernier_bloc_avant_rappel thread_reconstruit meme_liste_d_outils",
    "002-IV": "structure_stricte rejet_422",
    "002-V": "pruning_securise thread_db_recharge ordre_verifie",
    "002-VI": "logs_avant_chaque_appel pii_masquee details_des_tool_calls metadonnees_de_tracage",
    "002-VII": "tokens_serveur appels_batch ownership pas_de_token_client",
    "002-VIII": "multi_tools_nominal idempotence concurrence validation rappels",
    "002-IX": "valeurs_par_defaut_recommandees efficacite criteres_de_qualite",
    "002-X": "sequence_claire multi_tool_enchaine_plusieurs_vagues pas_de_reordre_ni_de_doublons "
    "applied_false_sur_replays 409_resolus",
    "003 modes": "mode_direct mode_local mode_external",
    "003 steps": "step_1 step_2 step_3",
    "003 risks": "risk_1 risk_2 risk_3 risk_4",
    "003 phases": "phase_1 phase_2 phase_3 phase_4 phase_5",
}


@cache
def names() -> tuple[str, ...]:
    """The names of all tests."""
    return tuple(
        node.name
        for path in TESTS.rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )


@pytest.mark.parametrize("row", [f"{section}: {row}" for section, rows in ROWS.items() for row in rows.split()])
def test_row_has_a_test_that_carries_its_name(row: str) -> None:
    words = row.partition(": ")[2]
    assert any(f"_{words}_" in f"{name}_" for name in names()), f"no test is named after {row}"
