"""Who holds an agent's registry: the only writer of :class:`hooks_app.models.RuntimeInstance`."""

from typing import Any

from django.db.models import Func, IntegerField, QuerySet

from hooks_app.models import Agent, RuntimeInstance
from hooks_app.registry import heads
from portal.lib import clock


class _Length(Func):
    """How many members a JSON list has, counted where it is stored."""

    output_field = IntegerField()

    function = "JSON_ARRAY_LENGTH"

    def as_postgresql(self, compiler: Any, connection: Any, **options: Any) -> Any:
        """There the column is `jsonb`."""
        return self.as_sql(compiler, connection, **(options | {"function": "JSONB_ARRAY_LENGTH"}))


def of(agent: Agent) -> QuerySet[Any]:
    """The agent's runtimes for a list: without the tools that they announced, whose number is ``tool_count``."""
    return RuntimeInstance.objects.filter(agent=agent).defer("tools").annotate(tool_count=_Length("tools"))


def record(agent: Agent, name: str, surface: str, revision: int | None) -> None:
    """A runtime called ``name`` has asked. Kept to the minute: nothing is written while nothing new would be said."""
    minute = clock.now().replace(second=0, microsecond=0)
    facts = {"surface": surface, "revision": revision, "last_seen_at": minute}
    row = RuntimeInstance.objects.filter(agent=agent, name=name).values(*facts).first()
    if row == facts:
        return
    if row is None:
        _, created = RuntimeInstance.objects.get_or_create(agent=agent, name=name, defaults=facts)
        if created:
            return
    RuntimeInstance.objects.filter(agent=agent, name=name).update(**facts)


def report_tools(agent: Agent, name: str, tools: list[dict[str, Any]]) -> None:
    """Keep the tools that a runtime has: ``[{"name", "description", "input_schema"}]``, in place of those before."""
    minute = clock.now().replace(second=0, microsecond=0)
    before = RuntimeInstance.objects.filter(agent=agent, name=name).values_list("tools", flat=True).first()
    RuntimeInstance.objects.update_or_create(
        agent=agent, name=name, defaults={"tools": tools, "last_seen_at": minute}
    )
    if tools != (before or []):
        heads.tools_changed(agent)
