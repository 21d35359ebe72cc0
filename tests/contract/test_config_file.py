"""Sections 2 and 3: the config file and the commands that read and write it."""

import json
import re
import shutil
from typing import Any

import httpx
import pytest
import yaml

from examples.portal_process import ROOT, PortalProcess
from tests.contract.conftest import FILES, SECRETS, World
from tests.contract.shell import Shell

CONTRACTS_EXAMPLE = FILES / "contract.yaml"
LINE = re.compile(r"(created|changed|unchanged|pruned) \S+ \S+")


def lines(done: Any) -> list[str]:
    """What a successful apply printed per object, without the last line."""
    assert done.returncode == 0, done.stderr
    found: list[str] = done.stdout.splitlines()
    assert re.fullmatch(r"\d+ changes?", found[-1]), found[-1]
    assert all(LINE.fullmatch(line) for line in found[:-1]), found
    return found[:-1]


def changes(done: Any) -> int:
    """N of ``N changes``."""
    assert done.returncode == 0, done.stderr
    return int(done.stdout.splitlines()[-1].split()[0])


def test_the_contracts_example_applies_as_printed(world: World) -> None:
    placeholders = dict.fromkeys(
        ("FEISHU_APP_SECRET", "FEISHU_ENCRYPT_KEY", "FEISHU_TOKEN"), "placeholder-7-value"
    )
    fresh = world.portal.folder / "example"
    fresh.mkdir()
    portal = PortalProcess(fresh, environment={**placeholders, "ALICE_PASSWORD": SECRETS["ALICE_PASSWORD"]})
    shell = Shell(portal)

    def manage(*arguments: str) -> str:
        done = shell.run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    manage("migrate", "--verbosity", "0")
    printed = manage("apply", str(CONTRACTS_EXAMPLE)).splitlines()
    created = {
        "created organization acme",
        "created agent acme/procurement",
        "created channel acme/ops-feishu",
    }
    assert created <= set(printed)
    assert printed[-1] == f"{len(printed) - 1} changes"
    again = manage("apply", str(CONTRACTS_EXAMPLE)).splitlines()
    assert again[-1] == "0 changes"
    assert {line.split()[0] for line in again[:-1]} == {"unchanged"}
    exported = manage("export")
    assert "${ACME_OPS_FEISHU_APP_SECRET}" in exported
    assert "placeholder-7-value" not in exported
    (fresh / "exported.yaml").write_text(exported)
    # Elsewhere, without the secrets in the environment.
    shell.close()
    for name in placeholders:
        del portal.environment[name]
    assert manage("apply", str(fresh / "exported.yaml"), "--prune").splitlines()[-1] == "0 changes"
    agent = yaml.safe_load(exported)["organizations"][0]["agents"][0]
    assert agent["hooks"]["class_hooks"][1]["when"] == "args.amount >= 50000"
    assert '"revision": 1' in manage("build_registry", "acme/procurement")
    shell.close()
    shutil.rmtree(fresh)


def test_export_of_everything_applies_as_no_change(world: World) -> None:
    exported = world.command("export")
    assert exported.returncode == 0, exported.stderr
    for name, secret in SECRETS.items():
        assert secret not in exported.stdout, name
    file = world.portal.folder / "everything.yaml"
    file.write_text(exported.stdout)
    assert changes(world.command("apply", str(file), "--prune", "--dry-run")) == 0
    one = world.command("export", "--org", "solo")
    assert [o["slug"] for o in yaml.safe_load(one.stdout)["organizations"]] == ["solo"]
    assert world.command("export", "--org", "no-such").returncode == 1


HOUSE: dict[str, Any] = {
    "slug": "house",
    "name": "House",
    "members": [{"user": "hana", "email": "hana@house.test", "role": "admin", "password": "correct-horse-8-battery"}],
    "groups": [{"slug": "desk", "members": ["hana"]}],
    "channels": [
        {"slug": "room", "type": "feishu", "config": {
            "app_id": "cli_h", "app_secret": "${HOUSE_SECRET}", "chat_id": "oc_h", "encrypt_key": "key-of-the-house",
            "verification_token": "token-of-the-house"}},
    ],
    "approval_policies": [{"slug": "strict", "timeout_seconds": 200}],
    "connectors": [{"slug": "oa", "actions": [{"name": "pay", "policy": "strict"}, {"name": "read", "writes": False}]}],
    "agents": [{"slug": "agent", "name": "Agent", "owner": "hana", "hooks": {"class_hooks": ["session_context"]}}],
}  # fmt: skip


def document(**changed: Any) -> str:
    """The house's file as YAML, with fields of the organization replaced."""
    return yaml.safe_dump({"apiVersion": "hookgate/v1", "organizations": [{**HOUSE, **changed}]})


def test_a_house_from_dry_run_to_prune(world: World) -> None:
    file = world.portal.folder / "house.yaml"
    file.write_text(document())
    unset = world.command("apply", str(file))
    assert (unset.returncode, unset.stdout) == (1, "")
    assert "HOUSE_SECRET" in unset.stderr
    world.portal.environment["HOUSE_SECRET"] = "secret-of-the-house"
    tried = world.process("apply", str(file), "--dry-run")
    assert "created organization house" in lines(tried)
    assert world.command("export", "--org", "house").returncode == 1
    made = world.process("apply", str(file))
    assert lines(made) == lines(tried)
    assert changes(made) == len(lines(made))
    # A secret that is no longer in the environment is kept.
    del world.portal.environment["HOUSE_SECRET"]
    again = world.command("apply", str(file))
    assert (changes(again), {line.split()[0] for line in lines(again)}) == (0, {"unchanged"})
    file.write_text(document(approval_policies=[{"slug": "strict", "timeout_seconds": 300}]))
    changed = world.command("apply", str(file))
    assert [line for line in lines(changed) if not line.startswith("unchanged")] == [
        "changed approval_policy house/strict"
    ]
    file.write_text(document(approval_policies=[], connectors=[], groups=[]))
    kept = world.command("apply", str(file))
    assert changes(kept) == 0
    pruned = world.command("apply", str(file), "--prune")
    gone = {line for line in lines(pruned) if line.startswith("pruned")}
    assert {
        "pruned approval_policy house/strict",
        "pruned connector house/oa",
        "pruned group house/desk",
    } <= gone
    left = yaml.safe_load(world.command("export", "--org", "house").stdout)["organizations"][0]
    assert [left.get(name, []) for name in ("approval_policies", "connectors", "groups")] == [[], [], []]
    # Only within the file's organizations.
    assert world["acme"].get("/agents/procurement/registry").status_code == 200


# Each line has one fault; the word is in the path of its error.
FAULTY = """apiVersion: hookgate/v1
organizations:
  - slug: refused
    name: X
    colour: red
    freshness: {revalidate_after_seconds: 0, max_stale_seconds: 300}
    members: [{user: a, role: king}]
    channels: [{slug: c, type: telegraph, config: {}}]
    approval_policies:
      - {slug: p, sort: red}
      - {slug: q, timeout_seconds: 259201}
      - {slug: r, quorum: 0}
      - {slug: s, scope: everybody}
    agents:
      - {slug: g, name: G, nickname: g}
      - {slug: h, name: H, confirmation_mode: never}
      - {slug: i, name: I, unlisted_tools: maybe}
      - {slug: j, name: J, hooks: {class_hooks: [{name: session_context, priority: 900}]}}
      - {slug: k, name: K, hooks: {class_hooks: [{name: session_context, speed: 1}]}}
      - {slug: l, name: L, hooks: {events: {AfterToolUse: []}}}
"""
FAULTS = (
    "organizations[0].colour", "freshness.revalidate_after_seconds", "members[0].role", "channels[0].type",
    "approval_policies[0].sort", "approval_policies[1].timeout_seconds", "approval_policies[2].quorum",
    "approval_policies[3].scope", "agents[0].nickname", "agents[1].confirmation_mode", "agents[2].unlisted_tools",
    "agents[3].hooks.class_hooks[0].priority", "agents[4].hooks.class_hooks[0].speed", "AfterToolUse",
)  # fmt: skip
# What is only wrong beside something else.
DANGLING = """apiVersion: hookgate/v1
organizations:
  - slug: refused
    name: X
    members: [{user: a, role: admin, password: "${NOT_SET_ANYWHERE}"}]
    approval_policies: [{slug: p, scope: group, group: nobody}]
    agents:
      - {slug: g, name: G, owner: zoe}
      - {slug: h, name: H, approval_channels: [nowhere]}
      - {slug: i, name: I, approval_policy: none-such}
      - {slug: j, name: J, may_delegate_to: [nobody]}
"""
DANGLES = (
    "members[0].password", "approval_policies[0].group", "agents[0].owner", "agents[1].approval_channels",
    "agents[2].approval_policy", "agents[3].may_delegate_to",
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "places"),
    [
        (FAULTY, FAULTS),
        (DANGLING, DANGLES),
        ("apiVersion: hookgate/v1\norganizations: [{slug: refused, slug: b, name: X}]\n", ("slug",)),
        ("apiVersion: hookgate/v9\norganizations: []\n", ("apiVersion",)),
    ],
)
def test_a_broken_file_names_every_place_and_changes_nothing(
    world: World, text: str, places: tuple[str, ...]
) -> None:
    file = world.portal.folder / "broken.yaml"
    file.write_text(text)
    run = world.process if text == FAULTY else world.command
    done = run("apply", str(file))
    assert done.returncode == 1
    assert done.stdout == ""
    for line in done.stderr.splitlines():
        assert re.fullmatch(r"\S+: .+", line), line
    named = [line.split(": ")[0] for line in done.stderr.splitlines()]
    assert [place for place in places if not any(place in path for path in named)] == []
    assert world.command("export", "--org", "refused").returncode == 1


def test_the_schema_of_the_file_is_served_and_shipped(world: World) -> None:
    shipped = json.loads((ROOT / "docs" / "config.schema.json").read_text())
    served = httpx.get(f"{world.portal.url}/api/v1/config.schema.json", trust_env=False, timeout=10)
    assert served.json() == shipped
    assert "hookgate/v1" in json.dumps(shipped)
