"""Routes of the chat page and its API."""

from django.urls import include, path
from rest_framework.routers import SimpleRouter

from chat.doors.http import api, approvals, reader_api
from chat.doors.openai import views as openai_api
from chat.doors.page import views
from chat.doors.widget import views as widget

router = SimpleRouter()
router.register("conversations", api.ConversationViewSet, basename="conversation")

urlpatterns = [
    path("", views.chat_page, name="chat-home"),
    path("d/<slug:slug>/", views.chat_page, name="chat-deployment"),
    path("d/<slug:slug>/c/<uuid:conversation_id>/", views.chat_page, name="chat-conversation"),
    path("s/<slug:token>/", views.shared_page, name="shared-thread"),
    path(
        "api/conversations/<uuid:conversation_id>/export",
        reader_api.ExportView.as_view(),
        name="conversation-export",
    ),
    path(
        "api/conversations/<uuid:conversation_id>/links",
        reader_api.LinksView.as_view(),
        name="conversation-links",
    ),
    path(
        "api/conversations/<uuid:conversation_id>/links/<slug:token>",
        reader_api.LinkView.as_view(),
        name="conversation-link",
    ),
    path(
        "api/messages/<int:message_id>/feedback",
        reader_api.FeedbackView.as_view(),
        name="message-feedback",
    ),
    path("api/", include(router.urls)),
    path(
        "api/ui/chat-sessions/<uuid:conversation_id>/messages",
        api.SessionMessagesView.as_view(),
        name="chat-session-messages",
    ),
    path(
        "api/ui/chat-sessions/<uuid:conversation_id>/messages/batch",
        api.BatchView.as_view(),
        name="chat-session-batch",
    ),
    path("v1/models", openai_api.models, name="v1-models"),
    path("v1/models/<str:slug>", openai_api.model, name="v1-model"),
    path("v1/chat/completions", openai_api.chat_completions, name="v1-chat-completions"),
    path("widget.js", widget.script, name="widget-script"),
    path("widget/ask", widget.ask, name="widget-ask"),
    path("widget/stop", widget.stop, name="widget-stop"),
    path("widget/messages/<uuid:conversation_id>", widget.messages, name="widget-messages"),
    path("widget/turns/<uuid:turn_id>/events", widget.turn_events, name="widget-events"),
    path("widget/<slug:public_key>/", widget.frame, name="widget-frame"),
    path("api/rag/chat", api.rag_chat, name="rag-chat"),
    path("api/rag/turns/<uuid:turn_id>/events", api.turn_events, name="turn-events"),
    path(
        "api/rag/turns/<uuid:turn_id>/approvals",
        approvals.ApprovalsView.as_view(),
        name="turn-approvals",
    ),
    path("api/rag/turns/<uuid:turn_id>/retry", api.retry_turn, name="turn-retry"),
    path("api/rag/turns/<uuid:turn_id>/stop", api.stop_turn, name="turn-stop"),
]
