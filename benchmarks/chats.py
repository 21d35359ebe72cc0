"""The chat that the delivery benchmark sends to, as a process of its own: many apps, many groups, nobody in them.

``python -m benchmarks.chats`` prints its address and ends when its input does. Both sides of the comparison speak to
it, so what it costs is the same for both.
"""

import sys

from channels_app.sandbox.feishu import FeishuSandbox
from channels_app.sandbox.server import SandboxServer

CHATS = 400
# The platform takes fifty calls a second from one app; so many apps are never held to that here.
APPS = 20
SECRET, ENCRYPT_KEY, TOKEN, TENANT = "bench-secret", "bench-encrypt-key", "bench-token", "benchtenant"


def app_of(number: int) -> str:
    """The app that serves the chat of that number."""
    return f"cli_bench_{number % APPS:02}"


def chat(number: int) -> str:
    """The id of the chat of that number."""
    return f"oc_bench_{number:03}"


def main() -> None:
    """Serve until the end of the input."""
    sandbox = FeishuSandbox()
    for number in range(APPS):
        sandbox.add_app(app_of(number), SECRET, ENCRYPT_KEY, TOKEN, TENANT, None)
    for number in range(CHATS):
        sandbox.add_chat(chat(number), f"Bench {number}", bots=[app_of(number)])
    with SandboxServer(sandbox) as server:
        print(server.base_url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
