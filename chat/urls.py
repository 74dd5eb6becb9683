"""Every route: the pages, the API, `/v1`, the widget and the WebSockets."""

from django.conf import settings
from django.urls import include, path, re_path
from django.views.generic import RedirectView
from rest_framework.routers import SimpleRouter

from chat.api import batches, conversations, openai, questions
from chat.api.asgi import ChatConsumer
from chat.page import views, widget

router = SimpleRouter()
router.register("conversations", conversations.ConversationViewSet, basename="conversation")

_CONVERSATION = "api/conversations/<uuid:conversation_id>"
_SESSION = "api/ui/chat-sessions/<uuid:conversation_id>"
_TURN = "api/rag/turns/<uuid:turn_id>"

urlpatterns = [
    path("", views.chat_page, name="chat-home"),
    path("d/<slug:slug>/", views.chat_page, name="chat-deployment"),
    path("d/<slug:slug>/c/<uuid:conversation_id>/", views.chat_page, name="chat-conversation"),
    path("logos/<slug:digest>.png", views.logo, name="logo"),
    path("p/<str:token>/", views.passage_page, name="cited-passage"),
    # Where the pictures stood until 0.3.0: answers that people keep lead there.
    path("p/<str:token>/page/", RedirectView.as_view(pattern_name="cited-passage", permanent=True)),
    path("p/<str:token>/page/<int:page>.png", views.page_image, name="cited-page-image"),
    path(f"{_CONVERSATION}/export", conversations.ExportView.as_view(), name="conversation-export"),
    path("api/", include(router.urls)),
    path("api/messages/<int:message_id>/feedback", conversations.FeedbackView.as_view(), name="message-feedback"),
    path("api/messages/<int:message_id>/help", conversations.HelpView.as_view(), name="message-help"),
    path(f"{_SESSION}/messages", batches.SessionMessagesView.as_view(), name="chat-session-messages"),
    path(f"{_SESSION}/messages/batch", batches.BatchView.as_view(), name="chat-session-batch"),
    path("api/rag/chat", questions.rag_chat, name="rag-chat"),
    path(f"{_TURN}/events", questions.turn_events, name="turn-events"),
    path(f"{_TURN}/approvals", questions.decide_call, name="turn-approvals"),
    path(f"{_TURN}/sources/<int:number>/page", views.own_page, name="turn-source-page"),
    path(f"{_TURN}/retry", questions.retry_turn, name="turn-retry"),
    path(f"{_TURN}/stop", questions.stop_turn, name="turn-stop"),
    path("v1/models", openai.models, name="v1-models"),
    path("v1/models/<str:slug>", openai.model, name="v1-model"),
    path("v1/chat/completions", openai.chat_completions, name="v1-chat-completions"),
    re_path(r"^v1(?:/.*)?$", openai.unknown, name="v1-unknown"),
    path("widget.js", widget.script, name="widget-script"),
    path("widget/ask", widget.ask, name="widget-ask"),
    path("widget/answers/<int:message_id>/feedback", widget.VisitorFeedbackView.as_view(), name="widget-feedback"),
    path("widget/answers/<int:message_id>/help", widget.VisitorHelpView.as_view(), name="widget-help"),
    path("widget/stop", widget.stop, name="widget-stop"),
    path("widget/messages/<uuid:conversation_id>", widget.messages, name="widget-messages"),
    path("widget/turns/<uuid:turn_id>/events", widget.turn_events, name="widget-events"),
    path("widget/<slug:public_key>/", widget.frame, name="widget-frame"),
]
_socket = f"{settings.BASE_PATH}/ws/chat/<uuid:conversation_id>/".removeprefix("/")
websocket_urlpatterns = [path(_socket, ChatConsumer.as_asgi())]
