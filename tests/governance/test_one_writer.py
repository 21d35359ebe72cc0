"""Each table of the configuration has one writer, which the admin and ``apply`` both call."""

import ast
from pathlib import Path

from tests.test_house import ROOT, sources

TABLES = {
    "Organization", "Group", "GroupMember", "Absence", "Membership", "Invitation", "User",
    "Agent", "AgentTool", "ApprovalChannel", "FallbackChannel", "Declaration",
    "ApprovalPolicy", "Connector", "Action",
}  # fmt: skip
WRITING = {
    "save", "delete", "create", "bulk_create", "update", "bulk_update", "get_or_create", "update_or_create",
}  # fmt: skip
# Who writes rows of those tables, and what of them.
WRITERS = {
    "hooks_app/governance/tables.py": "rows and their parts",
    "hooks_app/governance/members.py": "memberships and invitations",
    "hooks_app/governance/leaving.py": "what a leaving member gives up",
    "hooks_app/governance/halting.py": "the switches that hold at once",
    "hooks_app/governance/restoring.py": "a draft that is taken back as a whole",
    "hooks_app/registry/heads.py": "the organization's inputs version",
    "portal/people/accounts.py": "accounts",
}
# What hands a change on: forms, files, pages, the API and commands.
CALLERS = ("hooks_app/admin/", "hooks_app/config/", "hooks_app/inbox/", "hooks_app/api/", "hooks_app/management/",
           "portal/admin/", "portal/web/")  # fmt: skip


def root_of(node: ast.expr) -> str:
    """The name that a chain of attributes and calls begins with: ``Agent`` of ``Agent.objects.filter(…)``."""
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def writes(path: Path) -> list[tuple[int, str, str]]:
    """``(line, root, verb)`` of every call that writes."""
    return [
        (node.lineno, root_of(node.func.value), node.func.attr)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WRITING
    ]


def product() -> dict[str, Path]:
    found = {str(path.relative_to(ROOT)): path for path in sources()}
    return {
        name: path
        for name, path in found.items()
        if name.startswith(("hooks_app/", "channels_app/", "portal/"))
    }


def test_nobody_else_writes_a_table_of_the_configuration() -> None:
    found = [
        f"{name}:{line} {root}.{verb}"
        for name, path in product().items()
        if name not in WRITERS
        for line, root, verb in writes(path)
        if root in TABLES
    ]
    assert found == []


def test_forms_and_files_save_and_delete_no_row_by_themselves() -> None:
    """Whatever the row is called: what a form or a file changes goes through a writer, which is called by its name."""
    writers = {"tables", "members", "channels", "identities", "run", "table", "super", "self", "accounts"}
    found = [
        f"{name}:{line} {root}.{verb}"
        for name, path in product().items()
        if name.startswith(CALLERS)
        for line, root, verb in writes(path)
        if verb in {"save", "delete", "bulk_create", "get_or_create", "update_or_create"}
        and root not in writers
    ]
    # With `commit=False`: it makes the rows and saves none.
    assert [one for one in found if not one.endswith("formset.save")] == []


def test_every_writer_that_is_named_writes() -> None:
    idle = [name for name in WRITERS if not writes(ROOT / name)]
    assert idle == []
