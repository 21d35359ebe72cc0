"""The other side of the delivery benchmark: the same calls with the same bytes, and nothing else.

``python -m benchmarks.sending URL THREADS``. Each line of the input is a round: one card for every chat, shared
out among the threads, each thread with its own kept connection; the answer is how many a second went out.
"""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import httpx

from benchmarks.chats import APPS, CHATS, SECRET, app_of, chat
from channels_app.adapters import feishu_card
from channels_app.cards import Button, Card, Field, Reason, Tone

CARD = Card(
    title="Approval needed",
    tone=Tone.PENDING,
    summary="payer wants to run oa__purchase_pay",
    fields=(Field("Tool", "oa__purchase_pay"), Field("Agent", "payer")),
    body_label="Arguments",
    body='{"amount": 60000}',
    cut_notice="Too long: open the full request.",
    buttons=(
        Button("approve", "Approve", "primary", needs_whole_body=True),
        Button("reject", "Reject", "danger", with_reason=True),
    ),
    reason=Reason("Reason", required=False),
    link_label="Open",
    link_url="https://hookgate.test/inbox/1",
)
# As long as the one that the portal makes.
REF = "r" * 24
KEY = "hg-00000000-0000-4000-8000-{:012}"


class Sender:
    """Rounds of bare calls."""

    def __init__(self, url: str, threads: int) -> None:
        self._clients = [httpx.Client(base_url=url, trust_env=False, timeout=30) for _ in range(threads)]
        self._content = feishu_card.encode(feishu_card.draw(feishu_card.fit(CARD), REF))
        self._keys = count()
        self._tokens = {app_of(number): self._token(app_of(number)) for number in range(APPS)}

    def play(self) -> float:
        """One round; calls a second."""
        started = time.perf_counter()
        with ThreadPoolExecutor(len(self._clients)) as pool:
            list(pool.map(self._share, range(len(self._clients))))
        return CHATS / (time.perf_counter() - started)

    def _share(self, thread: int) -> None:
        for number in range(thread, CHATS, len(self._clients)):
            self._send(self._clients[thread], number)

    def _send(self, client: httpx.Client, number: int) -> None:
        answer = client.post(
            "/open-apis/im/v1/messages",
            params={"receive_id_type": "chat_id"},
            headers={"Authorization": f"Bearer {self._tokens[app_of(number)]}"},
            json={
                "receive_id": chat(number),
                "msg_type": "interactive",
                "content": self._content,
                "uuid": KEY.format(next(self._keys)),
            },
        )
        if answer.json()["code"] != 0:
            raise RuntimeError(f"the chat refuses: {answer.text}")

    def _token(self, app: str) -> str:
        body = {"app_id": app, "app_secret": SECRET}
        answer = self._clients[0].post("/open-apis/auth/v3/tenant_access_token/internal", json=body)
        return str(answer.json()["tenant_access_token"])


if __name__ == "__main__":
    sender = Sender(sys.argv[1], int(sys.argv[2]))
    for _line in sys.stdin:
        print(sender.play(), flush=True)
