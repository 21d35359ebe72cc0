"""Refuses a file that leaves a policy with fewer people than it needs. See :mod:`hooks_app.governance.quorums`."""

from hooks_app.config import schema
from hooks_app.config.changes import Run
from hooks_app.governance import quorums
from hooks_app.models import ApprovalPolicy
from hooks_app.models.policies import Scope
from portal.lib.problems import FieldError
from portal.models import Invitation, Organization, Role, User


def check(run: Run, organization: Organization, entry: schema.Organization, path: str) -> None:
    """Judge every policy of the organization when the file has been written.

    An error where the file set the policy anew or took people out of its group who are still there; a warning where
    they were switched off or left, where those who were invited will be enough, or where there is nobody yet.
    """
    places = {
        policy.slug: f"{path}.approval_policies[{at}]" for at, policy in enumerate(entry.approval_policies)
    }
    for policy in ApprovalPolicy.objects.filter(organization=organization).select_related("group"):
        place = places.get(policy.slug, f"{organization.slug}/{policy.slug}")
        found = quorums.shortfalls(policy)
        refused = _is_choice(run, organization, policy, found)
        if refused and (waiting := _invited(organization, entry, policy)):
            refused = bool(quorums.shortfalls(policy, more=waiting))
        for error in found:
            if refused:
                run.errors.append(FieldError(f"{place}.{error.path}", quorums.CODE, error.message))
            else:
                run.warn(f"{place}.{error.path}", error.message, code=quorums.CODE)
    if text := quorums.tell(quorums.stuck([organization])):
        run.warn(path, text, code="requests_stuck")


def _is_choice(
    run: Run, organization: Organization, policy: ApprovalPolicy, found: list[quorums.Shortfall]
) -> bool:
    if policy.pk in run.requorumed and any(shortfall.able for shortfall in found):
        return True
    gone = set().union(*(run.taken_out.get(group.pk, set()) for group in quorums.groups(policy)))
    here = User.objects.filter(username__in=gone, is_active=True, memberships__organization=organization)
    return bool(found) and here.exists()


def _invited(organization: Organization, entry: schema.Organization, policy: ApprovalPolicy) -> int:
    """How many seats those will have who were asked to join and haven't answered."""
    asked = Invitation.objects.filter(organization=organization, declined_at__isnull=True)
    if deciding := {group.slug for group in quorums.groups(policy)}:
        names = {name for group in entry.groups if group.slug in deciding for name in group.members}
        return asked.filter(name__in=names).count()
    if policy.scope == Scope.APPROVERS:
        return asked.filter(role__in=(Role.APPROVER, Role.ADMIN)).count()
    return asked.count()
