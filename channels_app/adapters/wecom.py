"""WeCom: its configuration. This release keeps it and sends nothing."""

from typing import Any, Self

from pydantic import Field, SecretStr, model_validator

from channels_app.adapters.base import AdapterConfig, Platform


class WeComConfig(AdapterConfig):
    """A self-built app that writes to some people."""

    corp_id: str = Field(min_length=1, max_length=100)
    agent_id: int = Field(ge=1)
    secret: SecretStr = Field(min_length=1)
    token: SecretStr = Field(min_length=1)
    encoding_aes_key: SecretStr = Field(min_length=43, max_length=43)
    users: list[str] = []
    parties: list[str] = []
    tags: list[str] = []
    base_url: str = "https://qyapi.weixin.qq.com"

    @model_validator(mode="after")
    def _somebody_is_named(self) -> Self:
        if not (self.users or self.parties or self.tags):
            raise ValueError("name at least one of users, parties or tags")
        return self


class WeCom(Platform):
    """WeCom, known well enough to keep a channel's configuration."""

    type = "wecom"
    title = "WeCom"
    config_model = WeComConfig
    hosts = ("qyapi.weixin.qq.com",)

    @classmethod
    def app_key(cls, config: Any) -> str:
        return f"{config.corp_id}:{config.agent_id}"

    @classmethod
    def recipients(cls, config: Any) -> list[str]:
        return [
            *(f"user:{user}" for user in config.users),
            *(f"party:{party}" for party in config.parties),
            *(f"tag:{tag}" for tag in config.tags),
        ]

    @classmethod
    def unusable(cls, config: Any) -> str | None:
        return "WeCom is not available in this release; use a feishu channel"
