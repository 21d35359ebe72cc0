"""What the commands of this app share: names of organizations and agents, scopes, times."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from django.core.management.base import CommandError
from django.utils.dateparse import parse_datetime

from hooks_app.models import Agent
from portal.lib import clock
from portal.lib.problems import Problem
from portal.models import Organization

MAX_DAYS = 36_500


def find_organization(slug: str) -> Organization:
    """The organization called ``slug``. Raises ``CommandError``."""
    organization = Organization.objects.filter(slug=slug).first()
    if organization is None:
        raise CommandError(f"There is no organization {slug!r}.")
    return organization


def find_agent(reference: str) -> Agent:
    """The agent that ``ORG/AGENT`` names. Raises ``CommandError``."""
    slug, separator, name = reference.partition("/")
    if not (slug and separator and name):
        raise CommandError(f"{reference!r} names no agent; write ORG/AGENT.")
    organization = find_organization(slug)
    agent = Agent.objects.select_related("organization").filter(organization=organization, slug=name).first()
    if agent is None:
        raise CommandError(f"Organization {slug!r} has no agent {name!r}.")
    return agent


def find_target(reference: str) -> tuple[Organization, Agent | None]:
    """What ``ORG`` or ``ORG/AGENT`` names. Raises ``CommandError``."""
    if "/" in reference:
        agent = find_agent(reference)
        return agent.organization, agent
    return find_organization(reference), None


def split_scopes(value: str | None) -> list[str] | None:
    """The words of a comma-separated list; ``None`` stays ``None``."""
    return None if value is None else [word.strip() for word in value.split(",") if word.strip()]


def add_days(days: int | None) -> datetime | None:
    """The moment in ``days`` days. Raises ``CommandError`` unless that is 1 to 36500."""
    if days is None:
        return None
    if not 1 <= days <= MAX_DAYS:
        raise CommandError(f"--expires takes 1 to {MAX_DAYS} days, not {days}.")
    return clock.now() + timedelta(days=days)


def read_time(value: str) -> datetime:
    """An RFC 3339 time with its offset. Raises ``CommandError``."""
    try:
        moment = parse_datetime(value)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise CommandError(f"--until takes a time such as 2026-12-01T09:00:00Z, not {value!r}.")
    return moment


@contextmanager
def refusals() -> Iterator[None]:
    """Turn a refusal into the command's error: one line per field, exit code 1."""
    try:
        yield
    except Problem as problem:
        lines = [f"{error.path}: {error.message}" for error in problem.errors] or [problem.detail]
        raise CommandError("\n".join(lines)) from problem
