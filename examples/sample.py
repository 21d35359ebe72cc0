"""The sample organization: its config file, the secrets it names, and how it gets into a portal."""

from pathlib import Path

from channels_app.sandbox import samples

FILE = Path(__file__).with_name("sample.yaml")
PASSWORD = "hookgate-sample"  # noqa: S105  # printed by `make run`, for a portal on this machine alone
ORGANIZATION = "acme"
# `apply FILE` with these: how the file's variables begin.
ENV = ("--env", "SAMPLE_")


def placeholders(feishu_url: str) -> dict[str, str]:
    """The environment that ``sample.yaml`` wants. ``feishu_url`` is where the sandbox speaks Feishu's API."""
    return {
        "SAMPLE_PASSWORD": PASSWORD,
        "SAMPLE_APP_SECRET": samples.APP_SECRET,
        "SAMPLE_ENCRYPT_KEY": samples.ENCRYPT_KEY,
        "SAMPLE_VERIFICATION_TOKEN": samples.VERIFICATION_TOKEN,
        "SAMPLE_FEISHU_URL": feishu_url,
    }
