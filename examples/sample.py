"""The sample organization: its config file, the secrets it names, and how it gets into a portal."""

from pathlib import Path

from channels_app.sandbox import samples

FILE = Path(__file__).with_name("sample.yaml")
PASSWORD = "hookgate-sample"  # noqa: S105  # printed by `make run`, for a portal on this machine alone
ORGANIZATION = "acme"


def placeholders(feishu_url: str) -> dict[str, str]:
    """The environment that ``sample.yaml`` wants. ``feishu_url`` is where the sandbox speaks Feishu's API."""
    return {
        "SAMPLE_PASSWORD": PASSWORD,
        "SANDBOX_APP_SECRET": samples.APP_SECRET,
        "SANDBOX_ENCRYPT_KEY": samples.ENCRYPT_KEY,
        "SANDBOX_VERIFICATION_TOKEN": samples.VERIFICATION_TOKEN,
        "SANDBOX_URL": feishu_url,
    }
