"""Where policies and groups are named."""

from hooks_app import usage
from hooks_app.models import ApprovalPolicy
from portal.admin import uses
from portal.models import Group

uses.declare(ApprovalPolicy, usage.of_policy)
uses.declare(Group, usage.of_group)
