"""Slack: its configuration. This release keeps it and sends nothing."""

from typing import Any, Literal, Self

from pydantic import Field, SecretStr, model_validator

from channels_app.adapters.base import AdapterConfig, Platform
from portal.lib.crypto import bearer_digest


class SlackConfig(AdapterConfig):
    """A bot in one Slack channel."""

    bot_token: SecretStr = Field(min_length=1)
    signing_secret: SecretStr = Field(min_length=1)
    channel_id: str = Field(min_length=1, max_length=200)
    app_token: SecretStr | None = None
    base_url: str = "https://slack.com/api/"
    transport: Literal["webhook", "socket"] = "webhook"

    @model_validator(mode="after")
    def _socket_has_token(self) -> Self:
        if self.transport == "socket" and self.app_token is None:
            raise ValueError("transport socket needs app_token (xapp-…)")
        return self


class Slack(Platform):
    """Slack, known well enough to keep a channel's configuration."""

    type = "slack"
    title = "Slack"
    config_model = SlackConfig
    hosts = ("slack.com", "slack-gov.com")

    @classmethod
    def app_key(cls, config: Any) -> str:
        # A bot token (xoxb-TEAM-BOT-SECRET) belongs to one app in one team: what precedes the secret names both. It is
        # hashed, because a token of another shape would be kept in clear otherwise.
        return bearer_digest(config.bot_token.get_secret_value().rpartition("-")[0])

    @classmethod
    def recipients(cls, config: Any) -> list[str]:
        return [config.channel_id]

    @classmethod
    def unusable(cls, config: Any) -> str | None:
        return "Slack is not available in this release; use a feishu channel"
