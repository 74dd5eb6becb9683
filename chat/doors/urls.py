"""Routes of every door: the pages, the API, `/v1`, the widget and the WebSockets."""

from django.urls import include, path, re_path
from rest_framework.routers import SimpleRouter

from chat.doors.http import approvals, archive, batches, conversations, feedback, turns
from chat.doors.openai import views as openai
from chat.doors.page import originals as original
from chat.doors.page import plain
from chat.doors.page import views as page
from chat.doors.socket import ChatConsumer
from chat.doors.widget import views as widget

router = SimpleRouter()
router.register("conversations", conversations.ConversationViewSet, basename="conversation")

#: Below `api/conversations/<uuid:conversation_id>/`.
conversation = [
    path("export", archive.ExportView.as_view(), name="conversation-export"),
    path("links", archive.LinksView.as_view(), name="conversation-links"),
    path("links/<slug:token>", archive.LinkView.as_view(), name="conversation-link"),
]
#: Below `api/messages/<int:message_id>/`.
message = [path("feedback", feedback.FeedbackView.as_view(), name="message-feedback")]
#: Below `api/ui/chat-sessions/<uuid:conversation_id>/`.
session = [
    path("messages", batches.SessionMessagesView.as_view(), name="chat-session-messages"),
    path("messages/batch", batches.BatchView.as_view(), name="chat-session-batch"),
]
#: Below `api/rag/turns/<uuid:turn_id>/`.
turn = [
    path("events", turns.turn_events, name="turn-events"),
    path("approvals", approvals.ApprovalsView.as_view(), name="turn-approvals"),
    path("sources/<int:number>/page", original.own_page, name="turn-source-page"),
    path("retry", turns.retry_turn, name="turn-retry"),
    path("stop", turns.stop_turn, name="turn-stop"),
]

urlpatterns = [
    path("", page.chat_page, name="chat-home"),
    path("d/<slug:slug>/", page.chat_page, name="chat-deployment"),
    path("d/<slug:slug>/c/<uuid:conversation_id>/", page.chat_page, name="chat-conversation"),
    path("d/<slug:slug>/ask", plain.ask, name="chat-ask"),
    path("d/<slug:slug>/c/<uuid:conversation_id>/read", plain.read, name="chat-read"),
    path("logos/<slug:digest>.png", page.logo, name="logo"),
    path("p/<str:token>/", page.passage_page, name="cited-passage"),
    path("p/<str:token>/page/", original.cited_page, name="cited-page"),
    path("p/<str:token>/page/<int:page>.png", original.page_image, name="cited-page-image"),
    path("s/<slug:token>/", page.shared_page, name="shared-thread"),
    path("api/conversations/<uuid:conversation_id>/", include(conversation)),
    path("api/", include(router.urls)),
    path("api/messages/<int:message_id>/", include(message)),
    path("api/ui/chat-sessions/<uuid:conversation_id>/", include(session)),
    path("api/rag/chat", turns.rag_chat, name="rag-chat"),
    path("api/rag/turns/<uuid:turn_id>/", include(turn)),
    path("v1/models", openai.models, name="v1-models"),
    path("v1/models/<str:slug>", openai.model, name="v1-model"),
    path("v1/chat/completions", openai.chat_completions, name="v1-chat-completions"),
    path("v1/completions", openai.completions, name="v1-completions"),
    path("v1/responses", openai.responses, name="v1-responses"),
    re_path(r"^v1(?:/.*)?$", openai.unknown, name="v1-unknown"),
    path("widget.js", widget.script, name="widget-script"),
    path("widget/ask", widget.ask, name="widget-ask"),
    path("widget/answers/<int:message_id>/feedback", widget.VisitorFeedbackView.as_view(), name="widget-feedback"),
    path("widget/stop", widget.stop, name="widget-stop"),
    path("widget/messages/<uuid:conversation_id>", widget.messages, name="widget-messages"),
    path("widget/turns/<uuid:turn_id>/events", widget.turn_events, name="widget-events"),
    path("widget/<slug:public_key>/", widget.frame, name="widget-frame"),
]
websocket_urlpatterns = [path("ws/chat/<uuid:conversation_id>/", ChatConsumer.as_asgi())]
