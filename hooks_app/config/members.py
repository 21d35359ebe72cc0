"""Writes members: who is made, who joins, and who is asked first. See :mod:`hooks_app.governance.members`."""

from hooks_app.config import schema
from hooks_app.config.changes import Run
from hooks_app.governance import emails, members
from portal.lib.problems import FieldError
from portal.models import Invitation, Membership, Organization, User
from portal.people import accounts


def lock_accounts(document: schema.Document) -> None:
    """Hold the accounts that the file names, in one order for all, so that nobody is given a way in meanwhile."""
    named = {member.user for organization in document.organizations for member in organization.members}
    list(User.objects.select_for_update().filter(username__in=named).order_by("pk").values_list("pk"))


def write_member(run: Run, organization: Organization, member: schema.Member, path: str) -> None:
    """The membership, with the portal user if there is none of that name; or the invitation of somebody who exists."""
    user = User.objects.filter(username=member.user).first()
    row = Membership.objects.filter(organization=organization, user=user).first() if user else None
    if user is None:
        _make(run, organization, member)
    elif row is not None or user.pk in run.made or members.may_join_at_once(organization, user, member.email):
        _write_membership(run, organization, member, user, row, path)
    elif member.existing:
        _write_invitation(run, organization, member, user, path)
    else:
        run.errors.append(
            FieldError(
                f"{path}.user",
                "account_exists",
                f"{member.user} is the account of somebody who may be able to sign in; correct the name, or say"
                " `existing: true` to invite that person",
            )
        )


def _make(run: Run, organization: Organization, member: schema.Member) -> None:
    user = User(username=member.user, email=member.email or "")
    # Without a password nobody can sign in with one; an admin may give a link.
    password = run.values.passwords.get(member.user)
    members.make(organization, user, member.role, password=password, actor=run.actor)
    run.made.add(user.pk)
    run.say("created", "member", f"{organization.slug}/{member.user}")


def _write_membership(
    run: Run,
    organization: Organization,
    member: schema.Member,
    user: User,
    row: Membership | None,
    path: str,
) -> None:
    data = _write_email(run, organization, member, user, path)
    name = f"{organization.slug}/{member.user}"
    if row is None:
        members.add(organization, user, member.role, actor=run.actor)
        run.say("created", "member", name)
        return
    changed = row.role != member.role
    if changed:
        # Whether an admin is left is judged when the whole file has been written.
        members.set_role(row, member.role, actor=run.actor, keep_admin=False)
    run.say("changed" if changed or data else "unchanged", "member", name)


def _write_email(
    run: Run, organization: Organization, member: schema.Member, user: User, path: str
) -> dict[str, list[str]]:
    """The address, unless the account is another organization's too: links for passwords go there."""
    if member.email is None or user.email == member.email:
        return {}
    elsewhere = Membership.objects.filter(user=user).exclude(organization__slug__in=run.organizations)
    if user.pk not in run.made and (user.is_superuser or elsewhere.exists()):
        run.warn(
            f"{path}.email",
            f"{member.user} belongs elsewhere too and keeps another address; an operator may change it",
            code="email_kept",
        )
        return {}
    data = {"email": [user.email, member.email]}
    user.email = member.email
    accounts.change(user, ["email"], data, actor=run.actor)
    return data


def _write_invitation(
    run: Run, organization: Organization, member: schema.Member, user: User, path: str
) -> None:
    """Somebody who has to accept first. Somebody who has declined isn't asked again."""
    name = f"{organization.slug}/{member.user} (invited)"
    row = Invitation.objects.filter(organization=organization, name=member.user).first()
    if row is not None and row.user_id != user.pk:
        members.withdraw(row, actor=run.actor)  # asked for before anybody had the name
        row = None
    if row is None:
        members.invite(
            organization,
            member.user,
            member.role,
            email=member.email or "",
            made_by=None,
            actor=run.actor,
        )
        run.say("created", "member", name)
    else:
        changed = members.change_invitation(row, member.role, member.email, actor=run.actor)
        run.say("changed" if changed else "unchanged", "member", name)
        if row.declined_at is not None:
            text = f"{member.user} has declined; prune or delete the invitation to ask again"
            run.warn(path, text, code="declined")
    if member.email and user.email and not emails.same(member.email, user.email):
        run.warn(f"{path}.email", f"{member.user} has another address and keeps it", code="email_kept")


def check_addresses(run: Run, organization: Organization, entries: list[schema.Member], path: str) -> None:
    """Refuse an address that another member has, one of whom the file says nothing included.

    When all are written, so that two may swap theirs in one file.
    """
    for index, member in enumerate(entries):
        user = User.objects.filter(username=member.user, memberships__organization=organization).first()
        if user and (other := emails.holder(user.email, [organization.pk], but=user.pk)):
            message = f"{user.email} is {other.username}'s; each member has one of their own"
            run.errors.append(FieldError(f"{path}.members[{index}].email", "address_taken", message))


def joined(organization: Organization, names: set[str]) -> set[str]:
    """Which of ``names`` are members; the others are invited, and have no seat before they accept."""
    rows = Membership.objects.filter(organization=organization, user__username__in=names)
    return set(rows.values_list("user__username", flat=True))


def warn_of_invited(run: Run, path: str, name: str, what: str) -> None:
    """Say that something waits until ``name`` has accepted."""
    run.warn(
        path, f"{name} is invited and {what} until they accept; apply the file again then", code="invited"
    )


def keep_an_admin(run: Run, organization: Organization, had: bool, path: str) -> None:
    """Refuse a file after which nobody may change an organization that somebody may change now."""
    if had and not members.has_admin(organization):
        text = f"{organization.slug} would have no active admin; leave one, or make somebody else admin first"
        run.errors.append(FieldError(f"{path}.members", "last_admin", text))
