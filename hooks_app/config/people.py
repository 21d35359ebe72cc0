"""Writes groups, absences and identities of members."""

from uuid import UUID

from channels_app import identities
from channels_app.models import Channel, Identity
from hooks_app.config import members as joining
from hooks_app.config import schema
from hooks_app.config.changes import Run
from hooks_app.governance import tables
from portal import audit
from portal.lib.problems import Problem
from portal.models import Absence, Group, GroupMember, Organization, User

RUNTIME = "runtime"


def write_group(run: Run, organization: Organization, group: schema.Group, at: str) -> None:
    """A group and who is in it."""
    joined = joining.joined(organization, set(group.members))
    for index, name in enumerate(group.members):
        if name not in joined:
            joining.warn_of_invited(run, f"{at}.members[{index}]", name, "is in no group")
    row = Group.objects.filter(organization=organization, slug=group.slug).first()
    new = row is None
    row = row or Group(organization=organization, slug=group.slug)
    places = {} if new else {place.user.username: place for place in row.memberships.select_related("user")}
    before, after = set(places), joined
    missing = User.objects.filter(username__in=after - before).order_by("username")
    if before - after:
        run.taken_out[row.pk] = before - after
    run.save(
        tables.GROUPS,
        row,
        {},
        more={"members": [audit.show(sorted(before)), audit.show(sorted(after))]} if before != after else {},
        parts=[GroupMember(group=row, user=user) for user in missing],
        gone=[places[name] for name in sorted(before - after)],
    )


def write_absence(run: Run, organization: Organization, absence: schema.Absence, at: str) -> None:
    """An absence; its user and its first day name it."""
    joined = joining.joined(organization, {absence.user, absence.substitute})
    for key, name in (("user", absence.user), ("substitute", absence.substitute)):
        if name not in joined:
            joining.warn_of_invited(run, f"{at}.{key}", name, "stands in for nobody, nor anybody for them,")
            return
    users = {
        user.username: user for user in User.objects.filter(username__in=[absence.user, absence.substitute])
    }
    found = Absence.objects.filter(
        organization=organization, user=users[absence.user], first_day=absence.first_day
    ).order_by("pk")
    row = found.first()
    row = row or Absence(organization=organization, user=users[absence.user], first_day=absence.first_day)
    run.save(tables.ABSENCES, row, {"last_day": absence.last_day, "substitute": users[absence.substitute]})


def write_identities(run: Run, organization: Organization, members: list[schema.Member], path: str) -> None:
    """Bind the accounts that members name. Those bound before and named no more go first, so that they can move."""
    apps: dict[str, UUID | None] = {
        row.slug: row.app_id for row in Channel.objects.filter(organization=organization)
    }
    apps[RUNTIME] = None
    wanted = {
        (member.user, apps[identity.channel], identity.external_id)
        for member in members
        for identity in member.identities or []
    }
    for member in members:
        if member.identities is not None or run.prune:
            _unbind_rest(run, organization, member.user, wanted)
    for index, member in enumerate(members):
        if member.identities and not joining.joined(organization, {member.user}):
            where = f"{path}.members[{index}].identities"
            joining.warn_of_invited(run, where, member.user, "is bound to no account")
            continue
        for at, identity in enumerate(member.identities or []):
            _bind(run, organization, member.user, identity, f"{path}.members[{index}].identities[{at}]")


def _unbind_rest(
    run: Run, organization: Organization, user: str, wanted: set[tuple[str, UUID | None, str]]
) -> None:
    rows = Identity.objects.filter(organization=organization, user__username=user)
    for row in rows.select_related("app", "user", "organization"):
        if (user, row.app_id, row.external_id) not in wanted:
            unbind(run, row)


def unbind(run: Run, row: Identity) -> None:
    """Take one account away from its person."""
    path = identity_path(row)
    identities.unbind(row, actor=run.actor)
    run.say("pruned", "identity", path)


def identity_path(row: Identity) -> str:
    """How an identity is named in what an apply prints."""
    channel = row.app.channels.order_by("slug").first() if row.app else None
    name = RUNTIME if row.app is None else channel.slug if channel else row.app.key
    return f"{row.organization.slug}/{row.user.username}/{name}/{row.external_id}"


def _bind(run: Run, organization: Organization, user: str, identity: schema.Identity, path: str) -> None:
    channel = None
    if identity.channel != RUNTIME:
        channel = Channel.objects.select_related("app").get(organization=organization, slug=identity.channel)
    before = Identity.objects.filter(
        organization=organization, app=channel.app if channel else None, external_id=identity.external_id
    ).first()
    try:
        row = identities.bind(
            organization=organization,
            user=User.objects.get(username=user),
            channel=channel,
            external_id=identity.external_id,
            name=identity.name,
            actor=run.actor,
        )
    except Problem as problem:
        run.refuse(path, problem)
        return
    verb = "created" if before is None else "unchanged" if before.name == row.name else "changed"
    run.say(verb, "identity", f"{organization.slug}/{user}/{identity.channel}/{identity.external_id}")
