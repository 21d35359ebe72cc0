"""The only writer of the configuration's rows: the admin and ``apply`` both save and delete through a :class:`Table`.

One write is one step: the row with its parts, its entry in the audit trail, the organization's inputs version where
registries are built from such rows, and the wake-up of runtimes. Memberships and invitations are
:mod:`hooks_app.governance.members`', accounts :mod:`portal.people.accounts`', channels :mod:`channels_app.channels`'.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Model

from hooks_app.models import (
    Agent,
    ApprovalPolicy,
    Publication,
    RegistryHead,
    RegistryRevision,
)
from hooks_app.registry import heads
from portal import audit
from portal.models import Absence, Organization
from portal.wakeups import wakeups

Data = dict[str, Any]
Outdate = Callable[[Organization], None]


def _of_organization(row: Any) -> Organization:
    organization: Organization = row.organization
    return organization


def _path(row: Any) -> str:
    return f"{row.organization.slug}/{row}"


def _always(changed: Collection[str]) -> bool:
    return True


def _never(changed: Collection[str]) -> bool:
    return False


@dataclass(frozen=True, kw_only=True)
class Table:
    """A configuration table.

    ``kind`` is the word of the audit trail and of ``apply`` for a row, ``name`` its path such as ``acme/oa``.
    ``outdates`` says of the columns that changed whether registries of the organization are built from them,
    ``outdates_as_row`` whether they are built from there being the row. ``follow`` runs after the row is saved,
    ``before_delete`` before it goes, both in the same transaction.
    """

    kind: str
    name: Callable[[Any], str] = _path
    organization: Callable[[Any], Organization] = _of_organization
    outdates: Callable[[Collection[str]], bool] = _always
    outdates_as_row: bool = True
    follow: Callable[[Any], None] | None = None
    before_delete: Callable[[Any], None] | None = None

    @transaction.atomic
    def save(
        self,
        row: Model,
        data: Data,
        *,
        actor: audit.Actor,
        columns: Collection[str] | None = None,
        parts: Sequence[Model] = (),
        gone: Sequence[Model] = (),
        outdate: Outdate = heads.inputs_changed_by_hand,
    ) -> str:
        """Write ``row``, whose attributes are set, with the rows that are part of it. Returns created, changed or
        unchanged.

        ``data`` says what changed, ``{column: [before, after]}``, as small JSON without secrets; a row that is there
        already and of which it says nothing is left alone. ``columns`` are the only ones written of such a row, so that
        what others wrote meanwhile stays. ``outdate`` makes the registries out of date; the one of a person's form
        raises ``Problem`` 422 when that would leave an agent without a registry.
        """
        new = row._state.adding
        if not (new or data):
            return "unchanged"
        row.save(force_insert=new, update_fields=None if new else columns)
        for part in gone:
            part.delete()
        for part in parts:
            part.save()
        verb = "created" if new else "changed"
        self._record(row, verb, data, actor)
        self._follow(row, self.outdates_as_row if new else self.outdates(data), outdate)
        return verb

    @transaction.atomic
    def delete(
        self,
        row: Model,
        *,
        actor: audit.Actor,
        verb: str = "deleted",
        data: Data | None = None,
        outdate: Outdate = heads.inputs_changed_by_hand,
    ) -> None:
        """Delete ``row`` with its parts; requests and the call log keep what they need of it by value.

        ``verb`` is the audit trail's: ``pruned`` for one that a config file no longer names.
        """
        self._record(row, verb, data or {}, actor)
        if self.before_delete is not None:
            self.before_delete(row)
        row.delete()
        if self.outdates_as_row:
            outdate(self.organization(row))

    def _record(self, row: Model, verb: str, data: Data, actor: audit.Actor) -> None:
        audit.append(
            organization=self.organization(row),
            actor=actor,
            action=f"{self.kind}.{verb}",
            kind=self.kind,
            id=row.pk,
            name=self.name(row),
            data=data,
        )

    def _follow(self, row: Model, outdates: bool, outdate: Outdate) -> None:
        if self.follow is not None:
            self.follow(row)
        if outdates:
            outdate(self.organization(row))


def _wake(agent: Agent) -> None:
    # Switched on or off, or another draft: its runtimes look whether what they hold still holds.
    wakeups.publish_on_commit(f"agent:{agent.pk}")


def _drop_registry(agent: Agent) -> None:
    # The registry's rows hold on to each other, so that none goes by accident.
    RegistryHead.objects.filter(agent=agent).delete()
    RegistryRevision.objects.filter(agent=agent).delete()
    Publication.objects.filter(agent=agent).delete()


def _name_absence(row: Absence) -> str:
    return f"{row.organization.slug}/{row.user.username}/{row.first_day.isoformat()}"


# A draft holds when it is published; delegation is built from which agents there are, switched on or off.
AGENTS = Table(
    kind="agent",
    outdates=_never,
    follow=_wake,
    before_delete=_drop_registry,
)
HOOKS = Table(
    kind="hook",
    name=lambda row: f"{_path(row.agent)}/{row}",
    organization=lambda row: _of_organization(row.agent),
    outdates=_never,
    outdates_as_row=False,
)
POLICIES = Table(kind="approval_policy")
CONNECTORS = Table(kind="connector")
# Of a connector that a file describes; a form's are parts of it.
ACTIONS = Table(
    kind="action",
    name=lambda row: f"{_path(row.connector)}/{row.name}",
    organization=lambda row: _of_organization(row.connector),
)
GROUPS = Table(kind="group")
ABSENCES = Table(kind="absence", name=_name_absence, outdates=_never, outdates_as_row=False)
ORGANIZATIONS = Table(
    kind="organization",
    name=lambda row: str(row.slug),
    organization=lambda row: row,
    outdates=lambda changed: bool(set(changed) - {"name", "retention_days"}),
    outdates_as_row=False,
)


def reorder(policies: Sequence[ApprovalPolicy], *, start: int) -> None:
    """Give policies that a config file doesn't name the places after those that it names; no content changes."""
    for position, row in enumerate(policies, start=start):
        if row.position != position:
            row.position = position
            row.save(update_fields=["position"])


def retire(agent: Agent, *, actor: audit.Actor, outdate: Outdate) -> bool:
    """Take away an agent that a config file no longer names; one that has history is switched off instead.

    Returns whether anything changed.
    """
    if not (agent.confirmations.exists() or agent.calls.exists()):
        AGENTS.delete(agent, actor=actor, verb="pruned", data={"kept": False}, outdate=outdate)
        return True
    if not agent.enabled:
        return False
    agent.enabled = False
    agent.save(update_fields=["enabled"])
    AGENTS._record(agent, "pruned", {"kept": True}, actor)
    AGENTS._follow(agent, False, outdate)
    return True
