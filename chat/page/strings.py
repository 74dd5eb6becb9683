"""Every word that the chat page's script writes; `{…}` is filled in by it."""

from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from agents.models import Deployment


def reader_strings() -> dict[str, str]:
    """Those of pages that are only read, and of the widget."""
    return {
        "copy": _("Copier"),
        "copyCode": _("Copier le code"),
        "copied": _("Copié"),
        "copyFailed": _("La copie a échoué"),
        "wholeQuestion": _("Toute la question"),
    }


def page_strings(deployment: Deployment | None) -> dict[str, str]:
    """An answer that a model wrote is said to be by the organisation of the deployment, or by the deployment."""
    author = (deployment.organisation or deployment.shown_name) if deployment else ""
    return {
        **reader_strings(),
        # Questions, answers and what can be done with them.
        "you": _("Vous"),
        "answer": _("Réponse"),
        "searching": _("Recherche dans les documents…"),
        "reasoning": _("Le modèle réfléchit…"),
        "reasoned": _("Le modèle a réfléchi"),
        "answerReady": _("Réponse : {text}"),
        "copyHint": _("Copier la réponse et ses sources"),
        "suggestions": _("Questions proposées"),
        "readAs": _("Question lue ainsi : « {text} »"),
        "askAsTyped": _("Poser telle quelle"),
        "askAgain": _("Reposer"),
        "askAgainHint": _("Reposer cette question"),
        "askModelAgain": _("Demander encore au modèle"),
        "retry": _("Réessayer"),
        "why": _("Pourquoi cette réponse ?"),
        "empty": _("Aucun texte n’a été produit."),
        "unanswered": _("Cette question est restée sans réponse."),
        "interrupted": _("Réponse interrompue"),
        "failed": _("Réponse incomplète : une erreur est survenue"),
        "loadFailed": _("La conversation n’a pas pu être chargée."),
        "edit": _("Modifier"),
        "editLabel": _("Question modifiée"),
        "editSend": _("Renvoyer"),
        "cancel": _("Annuler"),
        "resume": _("Reprendre la question"),
        "versions": _("Versions de cette question"),
        "version": _("{position} / {count}"),
        "versionShown": _("Version {position} sur {count}"),
        "previousVersion": _("Version précédente"),
        "nextVersion": _("Version suivante"),
        # How an answer was given.
        "source.memory_guard": _("Réponse validée en mémoire"),
        "source.direct_qa": _("Réponse validée du document"),
        "source.learned": _("Réponse validée par l’équipe"),
        "source.courtesy": _("Formule de politesse"),
        "source.extractive": _("Passages cités"),
        "source.llm": _("Rédigée par {model}").replace("{model}", author),
        "source.clarification": _("Précision demandée"),
        "source.guard_rail": _("Pas trouvé"),
        "source.round_limit": _("Arrêtée à la limite des outils"),
        # The lines of tools.
        "tools": _("Outils"),
        "tool.running": _("Outil « {name} » en cours…"),
        "tool.done": _("Outil « {name} » terminé"),
        "tool.failed": _("L’outil « {name} » a échoué"),
        "tool.awaiting": _("L’outil « {name} » demande votre accord"),
        "tool.approved": _("Outil « {name} » accepté"),
        "tool.denied": _("Outil « {name} » refusé"),
        "tool.approve": _("Accepter"),
        "tool.deny": _("Refuser"),
        "tool.pause": _("Un outil demande votre accord avant de continuer."),
        "tool.seconds": _("{seconds} s"),
        "citedPage": _("Voir la page {page} du document"),
        # Sources and the passage behind a citation.
        "sources": _("Sources"),
        "otherSource": _("1 autre passage"),
        "otherSources": _("{n} autres passages"),
        "consulted": _("Passages consultés ({n})"),
        "kind.learned": _("Réponse validée"),
        "kind.page": _("Page du web"),
        "kind.document": _("Document"),
        "kind.paged": _("Document, page {page}"),
        "date.validated": _("validée le {date}"),
        "date.read": _("lu le {date}"),
        "citation": _("Source {n} : {title}"),
        "sourcePage": _("p. {page}"),
        "untitled": _("Document sans titre"),
        "score": _("Similarité : {score}"),
        "type.qa_pair": _("Question et réponse"),
        "type.source_material": _("Extrait de document"),
        # The reader's verdict on an answer.
        "thumbUp": _("Réponse utile"),
        "thumbDown": _("Réponse à revoir"),
        "feedbackThanks": _("Merci de votre avis."),
        "feedbackTakenBack": _("Avis retiré."),
        "feedbackTitle": _("Qu’est-ce qui ne va pas ?"),
        "feedbackComment": _("Précisez, si vous le souhaitez"),
        "feedbackSend": _("Envoyer"),
        "feedbackFailed": _("Votre avis n’a pas pu être enregistré."),
        # The list of conversations.
        "rename": _("Renommer « {title} »"),
        "delete": _("Supprimer « {title} »"),
        "deleteQuestion": _("« {title} » et ses messages seront effacés définitivement."),
        "titleLabel": _("Titre de la conversation"),
        "deleteTitle": _("Supprimer la conversation ?"),
        "deleteOneQuestion": _("La conversation choisie et ses messages seront effacés définitivement."),
        "deleteManyTitle": _("Supprimer {count} conversations ?"),
        "deleteManyQuestion": _("Ces conversations et leurs messages seront effacés définitivement."),
        "deleteSelected": _("Supprimer ({count})"),
        "pin": _("Épingler « {title} »"),
        "unpin": _("Détacher « {title} »"),
        "pinned": _("Épinglées"),
        "none": _("Vos conversations apparaîtront ici."),
        "noneFound": _("Aucune conversation ne correspond."),
        "today": _("Aujourd’hui"),
        "yesterday": _("Hier"),
        "thisWeek": _("7 derniers jours"),
        "deleted": _("Conversation supprimée."),
        "deletedMany": _("{count} conversations supprimées."),
        "conversationMissing": _("Cette conversation n’existe pas ou n’est pas la vôtre. En voici une nouvelle."),
        # Temporary chats.
        "temporaryOn": _(
            "Conversation temporaire : elle n’est ni listée, ni réutilisée, et disparaît quand vous la quittez, au plus "
            "tard {hours} h après le dernier message."
        ),
        # The question field and the connection.
        "charactersLeft": _("Encore {n} caractères"),
        "charactersOver": _("{n} caractères de trop"),
        "reconnecting": _("Connexion perdue. Nouvel essai en cours ; rien n’est perdu."),
        "storageWaiting": _(
            "Le service est occupé ou momentanément indisponible. Votre question est gardée : elle repart d’elle-même."
        ),
        "storageReading": _(
            "Le service est occupé ou momentanément indisponible. La conversation s’affichera d’elle-même."
        ),
        "reconnectNow": _("Réessayer maintenant"),
        "requestFailed": _("La demande a échoué. Réessayez."),
        "offline": _("Le serveur ne répond pas. Vérifiez votre connexion, puis réessayez."),
        "offlineNow": _("Vous êtes hors ligne. Votre question partira dès le retour du réseau."),
        "expired": _("Votre session a expiré. Rechargez la page."),
        "dismiss": pgettext("close a notice", "Fermer"),
    }
