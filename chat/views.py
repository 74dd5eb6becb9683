"""The chat page: one template for the home page, a deployment and a conversation.

A view says who is here, which deployment is open and in which words the page speaks; everything else the page asks
of the API and the socket. A deployment or conversation that is absent or not for this person is a 404 that still
shows a page with a way on. The page runs under a policy without inline script or style: keep it so.
"""

import uuid
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import get_language, pgettext
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from agents.llm.base import language_model
from agents.models import Deployment
from chat.exceptions import ConversationNotFoundError
from chat.permissions import open_deployments, owned_conversation, visitor_of

#: More suggestions than these would push the question field off a phone's screen.
MAX_SUGGESTIONS = 6


@never_cache
@require_safe
def chat_page(
    request: HttpRequest, slug: str | None = None, conversation_id: uuid.UUID | None = None
) -> HttpResponse:
    visitor_of(request.session)
    deployments = list(open_deployments(request.user))
    deployment = _chosen(deployments, slug)
    is_mine = conversation_id is None or _is_mine(request, deployment, conversation_id)
    context = {
        "deployment": deployment,
        "deployments": deployments,
        "suggestions": _suggestions(deployment),
        "has_model": language_model() is not None,
        "is_missing": bool(slug) and deployment is None,
        "login_url": reverse(settings.LOGIN_URL),
        "max_characters": settings.MAX_MESSAGE_CHARACTERS,
        "config": _config(request, deployment, conversation_id if is_mine else None, is_mine),
    }
    found = is_mine and not context["is_missing"]
    response = render(request, "chat/page.html", context, status=200 if found else 404)
    response["Content-Security-Policy"] = _content_security_policy(request.get_host())
    return response


def _chosen(deployments: list[Deployment], slug: str | None) -> Deployment | None:
    return next((d for d in deployments if slug is None or d.slug == slug), None)


def _is_mine(
    request: HttpRequest, deployment: Deployment | None, conversation_id: uuid.UUID
) -> bool:
    try:
        conversation = owned_conversation(request.user, request.session, conversation_id)
    except ConversationNotFoundError:
        return False
    return deployment is not None and conversation.deployment_id == deployment.pk


def _suggestions(deployment: Deployment | None) -> list[str]:
    lines = deployment.suggestions.splitlines() if deployment else []
    return [line.strip() for line in lines if line.strip()][:MAX_SUGGESTIONS]


def _content_security_policy(host: str) -> str:
    directives = {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' data:",
        # Some browsers do not count a socket to the page's own host as 'self'.
        "connect-src": f"'self' ws://{host} wss://{host}",
        "form-action": "'self'",
        "base-uri": "'none'",
        "frame-ancestors": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in directives.items())


def _config(
    request: HttpRequest,
    deployment: Deployment | None,
    conversation_id: uuid.UUID | None,
    is_mine: bool,
) -> dict[str, Any]:
    """What the page's script is told: addresses, limits, words."""
    user = request.user
    admin = reverse("admin:index") if user.is_authenticated and user.is_staff else ""
    return {
        "deployment": deployment.slug if deployment else None,
        "deploymentName": deployment.name if deployment else "",
        "conversation": str(conversation_id) if conversation_id else None,
        "conversationMissing": not is_mine,
        "language": get_language(),
        "csrfToken": get_token(request),
        "csrfCookie": settings.CSRF_COOKIE_NAME,
        "maxCharacters": settings.MAX_MESSAGE_CHARACTERS,
        "urls": {
            "conversations": reverse("conversation-list"),
            "socket": "/ws/chat/{id}/",
            "page": reverse("chat-deployment", args=[deployment.slug]) if deployment else "/",
            "turnAdmin": f"{admin}chat/turn/{{id}}/change/" if admin else "",
        },
        "strings": _strings(),
    }


def _strings() -> dict[str, str]:
    """Every word that the script writes; `{…}` is filled in by it."""
    return {
        # The thread.
        "you": _("Vous"),
        "answer": _("Réponse"),
        "searching": _("Recherche dans les documents…"),
        "answerReady": _("Réponse : {text}"),
        "copy": _("Copier"),
        "copied": _("Copié"),
        "copyFailed": _("La copie a échoué"),
        "askAgain": _("Reposer"),
        "askAgainHint": _("Reposer cette question"),
        "editHint": _("Reprendre cette question pour la modifier"),
        "retry": _("Réessayer"),
        "why": _("Pourquoi cette réponse ?"),
        "empty": _("Aucun texte n’a été produit."),
        "unanswered": _("Cette question est restée sans réponse."),
        "interrupted": _("Réponse interrompue"),
        "failed": _("Réponse incomplète : une erreur est survenue"),
        "loadFailed": _("La conversation n’a pas pu être chargée."),
        # How an answer was given.
        "source.memory_guard": _("Réponse validée en mémoire"),
        "source.direct_qa": _("Réponse validée du document"),
        "source.extractive": _("Passages cités, sans modèle de langage"),
        "source.llm": _("Rédigée par {model}"),
        "source.llm.unnamed": _("Rédigée par un modèle de langage"),
        "source.clarification": _("Précision demandée"),
        "source.guard_rail": _("Hors domaine"),
        "source.round_limit": _("Arrêtée à la limite des outils"),
        # Tools.
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
        # Sources.
        "sources": _("Sources"),
        "citation": _("Source {n} : {title}"),
        "untitled": _("Document sans titre"),
        "score": _("Similarité : {score}"),
        "type.qa_pair": _("Question et réponse"),
        "type.source_material": _("Extrait de document"),
        # Conversations.
        "rename": _("Renommer « {title} »"),
        "delete": _("Supprimer « {title} »"),
        "deleteQuestion": _("« {title} » et ses messages seront effacés définitivement."),
        "titleLabel": _("Titre de la conversation"),
        "none": _("Vos conversations apparaîtront ici."),
        "noneFound": _("Aucune conversation ne correspond."),
        "today": _("Aujourd’hui"),
        "yesterday": _("Hier"),
        "thisWeek": _("7 derniers jours"),
        "older": _("Plus anciennes"),
        "deleted": _("Conversation supprimée."),
        "conversationMissing": _(
            "Cette conversation n’existe pas ou n’est pas la vôtre. En voici une nouvelle."
        ),
        # Composer and connection.
        "charactersLeft": _("Encore {n} caractères"),
        "charactersOver": _("{n} caractères de trop"),
        "reconnecting": _("Connexion perdue. Nouvel essai en cours ; rien n’est perdu."),
        "reconnectNow": _("Réessayer maintenant"),
        "requestFailed": _("La demande a échoué. Réessayez."),
        "offline": _("Le serveur ne répond pas. Vérifiez votre connexion, puis réessayez."),
        "expired": _("Votre session a expiré. Rechargez la page."),
        "dismiss": pgettext("close a notice", "Fermer"),
    }
