"""Plain notices from runtimes to channels."""

from django.db import transaction
from django.utils import translation
from django.utils.translation import gettext as _
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import TypedDict

from channels_app.cards import Card, Tone
from channels_app.models import Channel
from channels_app.outbox import deliveries
from hooks_app import limits
from hooks_app.api import lookups, requests
from hooks_app.api.endpoint import Endpoint
from hooks_app.api.openapi import describe
from hooks_app.api.permits import Permit
from hooks_app.models import Agent
from portal.lib import ids
from portal.lib.json_types import Uuid
from portal.lib.problems import Problem


class Queued(TypedDict):
    """The notice is in the outbox."""

    id: Uuid
    recipients: int


class MessagesView(Endpoint):
    """Notices to one channel."""

    permits = {"POST": Permit(runtime="notify")}

    @describe(
        "messages_send",
        "Send a notice to a channel",
        tag="channels",
        takes=requests.Message,
        answers_with={202: Queued},
        refuses={
            404: "not_found",
            409: "channel_disabled",
            429: "too_many_notices",
            503: "limits_unavailable",
        },
    )
    def post(self, request: Request, slug: str) -> Response:
        """Through the outbox; at most 30 a minute per agent."""
        channel = lookups.channel(self.runtime, slug)
        body = self.body(requests.Message)
        agent = lookups.agent(self.caller, body.agent)
        if not channel.enabled:
            raise Problem(409, "channel_disabled", f"The channel {channel.slug} is switched off.")
        limits.take_notice(agent)
        notice = ids.new()
        with transaction.atomic():
            queued = deliveries.enqueue(
                channel=channel, topic=f"notice:{notice}", card=_card(channel, agent, body.text)
            )
        receipt: Queued = {"id": str(notice), "recipients": len(queued)}
        return Response(receipt, status=202)


def _card(channel: Channel, agent: Agent, text: str) -> Card:
    with translation.override(channel.language):
        title = _("Notice from %(agent)s") % {"agent": agent.name}
    return Card(title=title, tone=Tone.NOTICE, summary=text.split("\n")[0][:200], body=text)
