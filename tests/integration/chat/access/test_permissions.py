"""What is prepared for people who are not signed in says what the querysets say, also of what changed a moment ago."""

import uuid
from itertools import product

from django.contrib.auth.models import AnonymousUser, User
from django.contrib.sessions.backends.db import SessionStore
from django.test import TestCase

from agents.models import Audience, Deployment
from chat.access.permissions import open_deployment, open_deployments, owned_conversation, owned_conversations
from chat.access.visitors import Reader
from chat.errors import ConversationNotFoundError, DeploymentNotFoundError
from chat.models import Conversation
from tests.factories import make_conversation

NOBODY = AnonymousUser()


class AnonymousTests(TestCase):
    def test_rights_are_those_of_the_querysets_at_once(self) -> None:
        me = Reader(NOBODY, SessionStore())
        mine = make_conversation(visitor=me.visitor, user=None)
        make_conversation(visitor=uuid.uuid4(), user=None)
        make_conversation(visitor=me.visitor, user=User.objects.create(username="u"))
        for is_active, audience in product((True, False), Audience.values):
            Deployment.objects.update(is_active=is_active, audience=audience)
            for deployment in Deployment.objects.all():
                with self.subTest(is_active=is_active, audience=audience):
                    assert self.opens(deployment) == open_deployments(NOBODY).contains(deployment)
            found = {row for row in Conversation.objects.all() if self.owns(me, row)}
            assert found == set(owned_conversations(me))
            assert (mine in found) == (is_active and audience == Audience.PUBLIC)

    def opens(self, deployment: Deployment) -> bool:
        try:
            return open_deployment(NOBODY, deployment.slug).agent == deployment.agent
        except DeploymentNotFoundError:
            return False

    def owns(self, me: Reader, conversation: Conversation) -> bool:
        try:
            found = owned_conversation(me, conversation.pk)
        except ConversationNotFoundError:
            return False
        return found == conversation and found.deployment == conversation.deployment
