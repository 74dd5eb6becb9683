"""What the documentation names exists, and each row of seed 002, sections I to X, and of seed 003 has a test that carries
its name.
"""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TESTS = {
    name for path in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text())
}

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


def test_every_test_that_the_failure_modes_name_exists() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    promises = text.partition("## Failure modes")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(test_\w+)`", promises))
    assert len(named) > 20
    assert named - TESTS == set()


def test_every_row_of_the_seeds_has_a_test_that_carries_its_name() -> None:
    rows = [(section, row) for section, named in ROWS.items() for row in named.split()]
    assert [row for row in rows if not any(f"_{row[1]}_" in f"{name}_" for name in TESTS)] == []
