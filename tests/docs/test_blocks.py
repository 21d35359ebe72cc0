"""Every block of README and docs is played by a test; the configuration that they print can be applied and built."""

import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hookgate import HookContext

from hooks_app.models import Agent
from hooks_app.registry import heads
from tests.config import documents
from tests.docs.blocks import Block, blocks, pages

# Who plays the blocks of a page: (pattern of the page, language) -> the test. The first that matches counts.
ON_THE_SAMPLE = "tests.docs.test_on_the_sample"
HERE = "tests.docs.test_blocks:test_a_file_applies_and_builds"
PLAYED = [
    (r"README\.md", "python", f"{ON_THE_SAMPLE}:test_a_program_runs_as_printed"),
    (r"docs/runtime\.md", "python", f"{ON_THE_SAMPLE}:test_a_program_runs_as_printed"),
    (
        r"docs/runtime\.md",
        "sh",
        "tests.runtime.test_package:test_the_installed_wheel_works_without_the_portal_and_closes_when_in_doubt",
    ),
    (
        r"docs/(configuration|operations)\.md",
        "sh",
        f"{ON_THE_SAMPLE}:test_the_operators_commands_run_as_printed",
    ),
    (r"runtime/README\.md", "python", f"{ON_THE_SAMPLE}:test_a_program_runs_as_printed"),
    (r"README\.md", "sh", "tests.newcomer.test_run:test_twice_in_a_row"),
    (r"docs/frameworks\.md", "python", f"{ON_THE_SAMPLE}:test_the_example_is_governed"),
    (r"docs/frameworks\.md", "sh", f"{ON_THE_SAMPLE}:test_the_example_is_governed"),
    (r"docs/api/README\.md", "sh|json", f"{ON_THE_SAMPLE}:test_the_apis_commands_run_as_printed"),
    (
        r"docs/api/walkthrough\.md",
        ".*",
        "tests.docs.test_walkthrough:test_the_commands_do_what_their_comments_say",
    ),
    (r"docs/quickstart\.md", ".*", "tests.docs.test_quickstart:test_the_page_holds"),
    (
        r"docs/hooks/.*\.md",
        "yaml|text",
        "tests.docs.test_hook_pages:test_the_example_does_what_the_page_says",
    ),
    (r"docs/(configuration|hooks|channels/feishu)\.md", "yaml", HERE),
    (r"docs/hooks\.md", "python", "tests.docs.test_blocks:test_the_handler_of_the_page_does_what_it_says"),
    (r"docs/operations\.md", "nginx|caddy", "tests.soak.test_proxy:Proxy"),
    (r".*", "mermaid|text", ""),  # a picture, or what something prints
]


def player(block: Block) -> str | None:
    """The test that plays a block, as ``module:name``; empty if there is nothing to play, ``None`` if nobody does."""
    for page, languages, test in PLAYED:
        if re.fullmatch(page, block.page) and re.fullmatch(languages, block.language):
            return test
    return None


def test_every_block_is_played() -> None:
    unplayed = [
        f"{block.name} ({block.language or 'no language'})"
        for page in pages()
        for block in blocks(page)
        if player(block) is None
    ]
    assert unplayed == []


@pytest.mark.parametrize("test", sorted({test for _, _, test in PLAYED if test}))
def test_who_plays_them_is_there(test: str) -> None:
    module, _, name = test.partition(":")
    assert callable(getattr(importlib.import_module(module), name))


FILES = [
    block
    for page in ("docs/configuration.md", "docs/hooks.md", "docs/channels/feishu.md")
    for block in blocks(page, "yaml")
]


def whole(printed: dict[str, Any]) -> dict[str, Any]:
    """A whole file around a printed part of one, with what the part names."""
    if "apiVersion" in printed:
        return printed
    hooks = printed.get("hooks", {"class_hooks": printed.get("class_hooks", [])})
    # A handler's name is of the shape of the vendors' files: quoted YAML reads it as JSON does.
    channel = {"slug": "ops-feishu", "type": "feishu", "config": documents.FEISHU}
    return documents.small(
        approval_policies=[{"slug": "payments"}],
        connectors=[{"slug": "oa", "actions": [{"name": "purchase_pay"}]}],
        channels=printed.get("channels", [channel]),
        agents=[{"slug": "procurement", "hooks": hooks}],
    )


@pytest.mark.django_db
@pytest.mark.parametrize("block", FILES, ids=lambda block: block.name)
def test_a_file_applies_and_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: Block) -> None:
    for name in re.findall(r"\$\{(\w+)\}", block.text):
        monkeypatch.setenv(name, f"a-long-secret-for-{name.lower()}")
    ended = documents.apply(tmp_path, whole(yaml.safe_load(block.text)))
    assert ended.code == 0, ended.err
    assert [line for line in ended.err if "warning" in line] == []
    manifest = json.loads(heads.serve(Agent.objects.get(), "chat").body)
    assert manifest["hooks"]


def test_the_handler_of_the_page_does_what_it_says() -> None:
    (block,) = blocks("docs/hooks.md", "python")
    program: dict[str, Any] = {}
    exec(compile(block.text, block.name, "exec"), program)
    context = HookContext(event="PostToolUse", tool_result="card 4111 1111")
    assert program["redact"](context).modified_result == "card **** 1111"
