"""The registry: what each agent's runtimes are served. The only writer of revisions and heads.

A head is out of date when its agent was published again, or when the organization's ``inputs_version`` has moved on.
It is built when somebody asks next: one at a time per agent (its row is locked), everybody else waits for that one.
The ``ETag`` is computed from one indexed read. A release that builds differently from the one before must raise every
``inputs_version`` in a migration.
"""

import hashlib
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import F, QuerySet
from hookgate import canonical

from hooks_app import metrics as measures
from hooks_app import switches
from hooks_app.models import Agent, RegistryHead, RegistryRevision
from hooks_app.registry import input_rows, manifest_warnings, manifests
from hooks_app.registry.manifest_inputs import Inputs
from hooks_app.registry.manifests import Governance
from hooks_app.switches import RegistryState
from portal import audit
from portal.lib import clock
from portal.lib.composed import Composed, Parameter
from portal.lib.problems import FieldError, Problem, invalid
from portal.models import Organization
from portal.observe import metrics
from portal.wakeups import wakeups

log = structlog.get_logger(__name__)

# Part of every ETag: raise it when the body of an unchanged revision would be written differently.
BODY_FORMAT = 1


@dataclass(frozen=True)
class Served:
    """An answer of the registry endpoint: canonical JSON, its strong ETag with the quotes, what it is."""

    body: bytes
    etag: str
    revision: int
    digest: str


def inputs_changed(organization: Organization) -> None:
    """Every agent's registry is built anew at its next read.

    Call it in the transaction that changed what agents share: connectors, policies, channels, groups, the list of
    agents, the organization's slug, policy or freshness.
    """
    Organization.objects.filter(pk=organization.pk).update(inputs_version=F("inputs_version") + 1)
    wakeups.publish_on_commit(f"organization:{organization.pk}")


def inputs_changed_by_hand(organization: Organization) -> None:
    """As :func:`inputs_changed`, for a change that a person makes in a form: refused if it breaks what works.

    Raises ``Problem`` 422 ``registry_unbuildable`` with every reason why an agent that is served its registry now
    would be refused it. Call it last in the transaction.
    """
    working = Agent.objects.filter(organization=organization, enabled=True, head__errors=[])
    inputs_changed(organization)
    broken = [
        FieldError(f"{agent.slug}.{error['path']}", error["code"], error["message"])
        for agent in working.order_by("slug")
        for error in head(agent).errors
    ]
    if broken:
        raise Problem(
            422,
            "registry_unbuildable",
            "This would leave agents without a registry: "
            + "; ".join(f"{error.path}: {error.message}" for error in broken),
            errors=[FieldError("", error.code, f"{error.path}: {error.message}") for error in broken],
        )


def refresh(agents: QuerySet[Agent], *, limit: int = 20) -> None:
    """Build the registries of these agents that are out of date, at most ``limit``: one read while there are none."""
    stale = RegistryHead.objects.filter(agent__in=agents).exclude(
        built_publication=F("publication"), built_inputs_version=F("agent__organization__inputs_version")
    )
    for agent_id in list(stale.values_list("agent_id", flat=True)[:limit]):
        _build(agent_id)


def works(agent: Agent) -> bool:
    """Whether runtimes of the agent are served a registry now, built first if it was out of date."""
    row = Agent.objects.get(pk=agent.pk)
    return row.enabled and RegistryHead.objects.filter(agent=agent).exists() and not head(row).errors


def tools_changed(agent: Agent) -> None:
    """The agent's runtimes have announced other tools: what matches nothing is judged anew at the next read."""
    RegistryHead.objects.filter(agent=agent).update(built_inputs_version=0)


def head(agent: Agent) -> RegistryHead:
    """The agent's head, built if it was out of date: see its ``revision`` and ``errors``.

    Raises ``Problem`` 422 when the agent was never published.
    """
    found = _read(agent.pk)
    if found is not None and not _is_current(found):
        found = _build(agent.pk)
    if found is None:
        raise _unbuildable(
            FieldError(
                "agent", "not_published", f"{agent.slug} was never published; publish it or apply its file"
            )
        )
    return found


def serve(
    agent: Agent, surface: str, *, actor: audit.Actor = audit.SYSTEM, found: RegistryHead | None = None
) -> Served:
    """What a runtime of ``agent`` gets on ``surface``. Whether it may ask for ``eval`` is the caller's to judge.
    ``found`` is as for :func:`governing`.

    Serving ``eval`` is audited: nothing is asked there. Raises ``Problem`` 400 for an unknown surface, 422
    ``registry_unbuildable`` with every reason.
    """
    now = _servable(agent, surface, found)
    revision = _revision(now)
    state = switches.state(now.agent, now.agent.organization)
    document = manifests.document(revision.manifest, surface=surface, state=state)
    if surface == "eval":
        _record_bypass(now.agent, actor)
    return Served(
        canonical.canonicalize(document),
        tag(revision.pk, surface, state),
        revision.number,
        document["digest"],
    )


def etag(agent: Agent, surface: str, found: RegistryHead | None = None) -> str:
    """The ETag, quotes included, that :func:`serve` would answer with: one read while nothing has changed. ``found`` is
    as for :func:`governing`.

    Raises what :func:`serve` raises.
    """
    now = _servable(agent, surface, found)
    return tag(_revision(now).pk, surface, switches.state(now.agent, now.agent.organization))


def tag(revision_id: UUID, surface: str, state: RegistryState) -> str:
    """The ETag, quotes included, of a revision on ``surface`` while ``state`` holds."""
    # A revision never changes, so it stands for everything else in the body.
    parts = [BODY_FORMAT, str(revision_id), surface, state]
    return f'"{hashlib.sha256(canonical.canonicalize(parts)).hexdigest()[:32]}"'


def state(agent: Agent) -> RegistryState:
    """The switches as they are now: ``{"read_only", "halted", "reason", "until"}``."""
    row = Agent.objects.select_related("organization").get(pk=agent.pk)
    return switches.state(row, row.organization)


def served(agents: Iterable[Agent]) -> dict[UUID, RegistryRevision]:
    """The revision that runtimes of each of these agents get now, without its manifest, by the agent's id.

    An agent whose registry is not served is missing. One read for all of them while nothing has changed.
    """
    found = {}
    for now in _heads().filter(agent__in=agents):
        with suppress(Problem):
            built = now if _is_current(now) else _build(now.agent_id)
            _refuse(built, switched_off=True)
            found[now.agent_id] = _revision(built)
    return found


def published(agent: Agent) -> Governance:
    """What governs a confirmation request of ``agent`` now. Whether the agent is enabled is for the caller to judge.

    Raises ``Problem`` 422 ``registry_unbuildable`` with every reason.
    """
    return governance(head(agent))


def heads() -> QuerySet[RegistryHead]:
    """Heads with their agents, organizations and owners, and their revisions without manifests."""
    return _heads().select_related("agent__owner")


def governing(agent: Agent, found: RegistryHead | None = None) -> RegistryHead:
    """The agent's head, current, with agent, organization and owner as they are now. ``found`` is one of :func:`heads`
    that was read in this very request; without it, one statement reads it. Raises as :func:`head`."""
    found = found or _GOVERNING.first(agent=agent.pk)
    return found if found is not None and _is_current(found) else head(agent)


def governance(head: RegistryHead) -> Governance:
    """What governs a confirmation request under ``head``. Raises ``Problem`` 422 ``registry_unbuildable``."""
    _refuse(head, switched_off=False)
    return _governance(_revision(head).pk)


def was_served(head: RegistryHead, digest: str) -> bool:
    """Whether ``digest`` is one of the agent's revisions. Nobody is asked on ``eval``, so its digests don't count."""
    if head.revision is not None and head.revision.digest == digest:
        return True
    return RegistryRevision.objects.filter(agent=head.agent_id, digest=digest).exists()


def _heads() -> QuerySet[RegistryHead]:
    return RegistryHead.objects.select_related("agent__organization", "revision").defer("revision__manifest")


def _read(agent_id: UUID) -> RegistryHead | None:
    return _HEAD.first(agent=agent_id)


_HEAD = Composed(_heads().filter(agent=Parameter("agent")))
_GOVERNING = Composed(heads().filter(agent=Parameter("agent")))


def _is_current(head: RegistryHead) -> bool:
    return (
        head.built_publication_id == head.publication_id
        and head.built_inputs_version == head.agent.organization.inputs_version
    )


def _servable(agent: Agent, surface: str, found: RegistryHead | None) -> RegistryHead:
    wrong = manifests.check_surface(surface)
    if wrong is not None:
        raise invalid(wrong)
    now = governing(agent, found)
    _refuse(now, switched_off=True)
    return now


def _refuse(head: RegistryHead, *, switched_off: bool) -> None:
    errors = [FieldError(**error) for error in head.errors]
    if switched_off and not head.agent.enabled:
        errors.append(FieldError("enabled", "agent_disabled", f"{head.agent.slug} is switched off"))
    if errors:
        raise _unbuildable(*errors)


def _revision(head: RegistryHead) -> RegistryRevision:
    """The revision of a head that :func:`_refuse` has let pass."""
    if head.revision is None:
        raise _unbuildable()
    return head.revision


def _unbuildable(*errors: FieldError) -> Problem:
    detail = "; ".join(f"{error.path}: {error.message}" for error in errors)
    return Problem(422, "registry_unbuildable", f"The registry can't be built: {detail}", errors=errors)


def _record_bypass(agent: Agent, actor: audit.Actor) -> None:
    log.warning(
        "registry.bypass_served", agent=agent.slug, organization=agent.organization.slug, actor=actor.name
    )
    audit.append(
        organization=agent.organization,
        actor=actor,
        action="registry.bypass_served",
        kind="agent",
        id=agent.pk,
        name=agent.slug,
    )


@lru_cache(maxsize=256)
def _governance(revision_id: UUID) -> Governance:
    # Revisions never change, so neither does what was read from one.
    return manifests.govern(RegistryRevision.objects.values_list("manifest", flat=True).get(pk=revision_id))


def _build(agent_id: UUID) -> RegistryHead:
    """The head as it is after the build: this one's, or the one that somebody else made while this one waited."""
    with transaction.atomic():
        now = RegistryHead.objects.select_for_update(no_key=True).get(agent_id=agent_id)
        # Read after the row is locked: what else a joined SELECT ... FOR UPDATE returns is older than its lock.
        now.agent = Agent.objects.select_related("organization").get(pk=agent_id)
        now.revision = _digest_of(now.revision_id)
        if _is_current(now):
            return now
        began = time.perf_counter()
        version, inputs = input_rows.read(now.agent, now.publication.content)
        built = manifests.build(inputs)
        if built.manifest is not None:
            now.revision = _revise(now, built)
        now.errors = [error.to_json() for error in built.errors]
        now.warnings = [warning.to_json() for warning in manifest_warnings.find(inputs).in_force()]
        now.built_publication = now.publication
        now.built_inputs_version = version
        now.save()
    _tell(inputs, built, time.perf_counter() - began)
    return now


def _digest_of(revision_id: UUID | None) -> RegistryRevision | None:
    """A head's revision without its manifest, which is by far the most of it."""
    if revision_id is None:
        return None
    return RegistryRevision.objects.defer("manifest").get(pk=revision_id)


def _tell(inputs: Inputs, built: manifests.Built, seconds: float) -> None:
    result = "unbuildable" if built.errors else "built"
    metrics.observe(measures.REGISTRY_BUILD_SECONDS, seconds, result=result)
    log.info(
        "registry.built",
        agent=inputs.agent,
        organization=inputs.organization,
        errors=len(built.errors),
        seconds=round(seconds, 4),
    )


def _revise(head: RegistryHead, built: manifests.Built) -> RegistryRevision:
    """The revision that holds ``built``: the present one if nothing has changed, else a new one."""
    if built.manifest is None:
        raise ValueError("only a manifest makes a revision")
    if head.revision is not None and head.revision.digest == built.digest:
        return head.revision
    newest = (
        RegistryRevision.objects.filter(agent_id=head.agent_id)
        .order_by("-number")
        .values_list("number", flat=True)
        .first()
    )
    number = (newest or 0) + 1
    by_publication = head.built_publication_id != head.publication_id
    return RegistryRevision.objects.create(
        agent_id=head.agent_id,
        number=number,
        digest=built.digest,
        manifest={**built.manifest, "revision": number},
        publication=head.publication,
        author_name=head.publication.author_name if by_publication else "",
        comment=head.publication.comment if by_publication else "Something that agents share has changed",
        created_at=clock.now(),
    )
