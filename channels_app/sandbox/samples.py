"""The sandbox that `make run` starts: one app, one group and three people."""

from pathlib import Path

from channels_app.sandbox.feishu import FeishuSandbox

APP_ID = "cli_sandbox_approvals"
APP_SECRET = "sandbox-app-secret"  # noqa: S105  belongs to nothing outside this process
ENCRYPT_KEY = "sandbox-encrypt-key"
VERIFICATION_TOKEN = "sandbox-verification-token"  # noqa: S105
TENANT_KEY = "sandboxtenant0001"
CHAT_ID = "oc_finance_approvals"
PEOPLE = (("ou_alice", "Alice"), ("ou_bob", "Bob"), ("ou_charlie", "Charlie"))


def sample(
    callback_url: str | None, *, email_domain: str = "acme.test", state_path: Path | None = None
) -> FeishuSandbox:
    """A seeded sandbox whose clicks go to `callback_url`; with `state_path` the chat survives a restart."""
    sandbox = FeishuSandbox(state_path=state_path)
    sandbox.add_app(APP_ID, APP_SECRET, ENCRYPT_KEY, VERIFICATION_TOKEN, TENANT_KEY, callback_url)
    sandbox.add_chat(CHAT_ID, "Finance approvals", bots=[APP_ID])
    for open_id, name in PEOPLE:
        sandbox.add_user(open_id, name, f"{name.lower()}@{email_domain}")
        sandbox.add_member(CHAT_ID, open_id)
    sandbox.load()
    return sandbox
