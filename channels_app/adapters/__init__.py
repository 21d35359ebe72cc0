"""The platforms that this installation knows: its own, and those of installed packages.

A package adds one with an entry point of the group ``hookgate.adapters`` that names a subclass of
:class:`channels_app.adapters.base.Platform`.
"""

from functools import cache
from importlib.metadata import entry_points

import structlog

from channels_app.adapters.base import Platform
from channels_app.adapters.feishu import FeishuAdapter
from channels_app.adapters.slack import Slack
from channels_app.adapters.wecom import WeCom

GROUP = "hookgate.adapters"
_OWN: tuple[type[Platform], ...] = (FeishuAdapter, Slack, WeCom)

log = structlog.get_logger(__name__)


@cache
def installed() -> dict[str, type[Platform]]:
    """Every platform by its type. A package that can't be loaded is logged; its channels are unusable and say so."""
    found = {platform.type: platform for platform in _OWN}
    for entry in entry_points(group=GROUP):
        try:
            platform = entry.load()
        except Exception as error:  # noqa: BLE001  # foreign code: nothing it raises may take the portal down
            log.error("adapter.not_loaded", entry=entry.name, error=type(error).__name__)
            continue
        if not (isinstance(platform, type) and issubclass(platform, Platform)) or platform.type in found:
            log.error("adapter.refused", entry=entry.name)
            continue
        found[platform.type] = platform
    return found
