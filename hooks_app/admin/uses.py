"""Where policies, groups and channels are named."""

from channels_app.models import Channel
from hooks_app import usage
from hooks_app.models import ApprovalPolicy
from portal.admin import uses
from portal.models import Group

uses.declare(ApprovalPolicy, usage.of_policy)
uses.declare(Group, usage.of_group)
uses.declare(Channel, lambda row: usage.of_channel(row.organization, row.slug))
