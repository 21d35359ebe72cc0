"""Which cards are taken, and what a card draws."""

import json

import pytest

from tests.sandbox.conftest import card, pending, plain

BUTTON = {"tag": "button", "name": "b", "text": plain("Go"), "behaviors": [{"type": "callback", "value": {}}]}
SUBMIT = {**BUTTON, "form_action_type": "submit"}
INPUT = {"tag": "input", "name": "reason"}


def form(*elements: dict, **changes) -> dict:
    return {"tag": "form", "name": "f", "elements": list(elements), **changes}


def nested(depth: int, inner: dict) -> dict:
    for _ in range(depth):
        inner = {"tag": "column_set", "columns": [{"tag": "column", "elements": [inner]}]}
    return inner


def without(value: dict, key: str) -> dict:
    return {name: item for name, item in value.items() if name != key}


TAKEN = {
    "the documented pending card": pending(),
    "a confirm with both texts": pending(confirm={"title": plain("Approve?"), "text": plain("It will run.")}),
    "no header": without(card(), "header"),
    "columns in a form": card(form(INPUT, nested(1, SUBMIT))),
    "five containers deep": card(nested(5, {"tag": "hr"})),
    "200 elements": card(*[{"tag": "hr"}] * 199),
    "open_url": card({**BUTTON, "behaviors": [{"type": "open_url", "default_url": "https://a.test"}]}),
    "a select": card(
        form({"tag": "select_static", "name": "s", "options": [{"text": plain("A"), "value": "a"}]}, SUBMIT)
    ),
}

REFUSED = {
    "action": (card({"tag": "action", "actions": []}), 200861, "unsupported tag action"),
    "note": (card({"tag": "note", "elements": []}), 200861, "unsupported tag note"),
    "schema 1": ({"elements": []}, 200621, "schema"),
    "schema as a number": ({**card(), "schema": 2.0}, 200621, "schema"),
    "update_multi false": ({**card(), "config": {"update_multi": False}}, 200621, "update_multi"),
    "width_mode": ({**card(), "config": {"width_mode": "wide"}}, 200621, "width_mode"),
    "elements at top level": (without({**card(), "elements": []}, "body"), 200621, "elements"),
    "no body": (without(card(), "body"), 200621, "body"),
    "template": (card(template="pink"), 200621, "template"),
    "header without title": ({**card(), "header": {"template": "red"}}, 200621, "title"),
    "four header tags": (
        {**card(), "header": {"title": plain("t"), "text_tag_list": [{}] * 4}},
        200621,
        "at most 3",
    ),
    "unknown tag": (card({"tag": "marquee"}), 200621, "marquee"),
    "unknown attribute": (card({**BUTTON, "colour": "red"}), 200621, "colour"),
    "201 elements": (card(*[{"tag": "hr"}] * 200), 11310, "201"),
    "texts count as elements": (card(*[{"tag": "div", "text": plain("x")}] * 100), 11310, "201"),
    "button type": (card({**BUTTON, "type": "success"}), 200621, "type"),
    "button text as markdown": (
        card({**BUTTON, "text": {"tag": "lark_md", "content": "x"}}),
        200621,
        "plain_text",
    ),
    "confirm without title": (card({**BUTTON, "confirm": {"text": plain("x")}}), 200621, "title is required"),
    "behaviors as an object": (card({**BUTTON, "behaviors": {}}), 200621, "behaviors"),
    "behavior type": (card({**BUTTON, "behaviors": [{"type": "request"}]}), 200621, "callback or open_url"),
    "submit outside a form": (card(SUBMIT), 200621, "inside a form"),
    "form without submit": (
        card(form(INPUT, BUTTON)),
        11310,
        "there is no submit button in the form container",
    ),
    "form without name": (card(form(INPUT, SUBMIT, name="")), 200530, "needs a name"),
    "input without name": (card(form({"tag": "input"}, SUBMIT)), 200530, "needs a name"),
    "button in a form without name": (card(form(INPUT, without(SUBMIT, "name"))), 200530, "needs a name"),
    "two of one name": (card(form(INPUT, INPUT, SUBMIT)), 200621, "unique"),
    "form in a column": (card(nested(1, form(INPUT, SUBMIT))), 200621, "form is not allowed"),
    "form in a form": (card(form(form(INPUT, SUBMIT), INPUT)), 200621, "form is not allowed"),
    "table in a form": (card(form({"tag": "table"}, SUBMIT)), 200621, "table is not allowed"),
    "six containers deep": (card(nested(6, {"tag": "hr"})), 200621, "at most 5 deep"),
    "max_length 0": (card(form({**INPUT, "max_length": 0}, SUBMIT)), 200621, "1 to 1000"),
    "max_length 1001": (card(form({**INPUT, "max_length": 1001}, SUBMIT)), 200621, "1 to 1000"),
    "placeholder": (card(form({**INPUT, "placeholder": plain("x" * 101)}, SUBMIT)), 200621, "100 characters"),
    "input_type": (card(form({**INPUT, "input_type": "number"}, SUBMIT)), 200621, "input_type"),
    "element_id with a dash": (card({"tag": "hr", "element_id": "a-b"}), 200621, "element_id"),
    "element_id of 21": (card({"tag": "hr", "element_id": "a" * 21}), 200621, "element_id"),
    "element_id twice": (
        card({"tag": "hr", "element_id": "a"}, {"tag": "hr", "element_id": "a"}),
        200621,
        "unique",
    ),
    "an image that nobody uploaded": (card({"tag": "img", "img_key": "img_1"}), 200570, "image key"),
    "content that is no string": (card({"tag": "markdown", "content": 7}), 200621, "must be a string"),
}


@pytest.mark.parametrize("name", TAKEN)
def test_taken(api, name):
    assert api.send(TAKEN[name]).json()["code"] == 0, api.send(TAKEN[name]).text


@pytest.mark.parametrize("name", REFUSED)
def test_refused(api, server, name):
    content, err_code, words = REFUSED[name]
    answer = api.send(content)
    assert (answer.status_code, answer.json()["code"]) == (400, 230099)
    assert answer.json()["msg"].startswith(
        f"Failed to create card content, ext=ErrCode: {err_code}; ErrPath: ROOT"
    )
    assert words in answer.json()["msg"]
    assert server.look("messages")["messages"] == []


HOSTILE = "<at id=all></at> [click](https://evil.test) **bold** ![i](img_1) <a href='https://evil.test'>x</a>\nhttps://evil.test"


def view_of(api, server, *elements: dict, **header):
    shown = card(*elements)
    shown["header"].update(header)
    api.sent(shown)
    return server.look("messages")["messages"][-1]["view"]


def test_plain_text_draws_nothing(api, server):
    view = view_of(
        api, server, {"tag": "div", "text": plain(HOSTILE)}, title=plain(HOSTILE), subtitle=plain(HOSTILE)
    )
    assert (view["mentions"], view["links"], view["images"]) == ([], [], [])
    assert view["lines"] == HOSTILE.split("\n")
    assert view["title"] == view["subtitle"] == HOSTILE


@pytest.mark.parametrize("element", [{"tag": "markdown"}, {"tag": "div"}])
def test_markdown_draws_mentions_and_links(api, server, element):
    where = (
        {"content": HOSTILE}
        if element["tag"] == "markdown"
        else {"text": {"tag": "lark_md", "content": HOSTILE}}
    )
    view = view_of(api, server, {**element, **where})
    assert view["mentions"] == [{"text": "@everyone", "id": "all"}]
    assert [row["url"] for row in view["links"]] == ["https://evil.test"] * 3
    assert view["images"] == ["img_1"]
    assert view["lines"][0] == "@everyone click bold i x"


@pytest.mark.parametrize(
    ("text", "mentions", "links"),
    [
        ("<at id=ou_bob></at>", ["ou_bob"], []),
        ("<at id='ou_bob'/>", ["ou_bob"], []),
        ('<AT email="bob@acme.test"></AT>', ["bob@acme.test"], []),
        ("<person id=ou_bob></person>", ["ou_bob"], []),
        ("```\n<at id=all></at>\n```", ["all"], []),  # whoever writes the text may close the fence
        ("**<at id=all></at>**", ["all"], []),
        ("<https://evil.test/a>", [], ["https://evil.test/a"]),
        ("<link url='https://evil.test'>x</link>", [], ["https://evil.test"]),
        ("[x]: https://evil.test", [], ["https://evil.test"]),
        ("&#60;at id=all&#62;&#60;/at&#62; &#91;x&#93;&#40;https&#58;&#47;&#47;evil.test&#41;", [], []),
        (r"\<at id=all\>\</at\> \[x\]\(https\://evil.test\)", [], []),
        ("<raw><at id=all></at></raw>", [], []),
    ],
)
def test_markup(api, server, text, mentions, links):
    view = view_of(api, server, {"tag": "markdown", "content": text})
    assert [row["id"] for row in view["mentions"]] == mentions
    assert [row["url"] for row in view["links"]] == links


def test_escaped_markdown_reads_as_written(api, server):
    text = "".join(f"&#{ord(sign)};" if sign in "&<>*_~`[]()#!+-:\\/\"'$" else sign for sign in HOSTILE)
    view = view_of(api, server, {"tag": "markdown", "content": text})
    assert view["lines"] == HOSTILE.split("\n")
    assert (view["mentions"], view["links"], view["images"]) == ([], [], [])


def test_a_top_level_value_makes_no_live_button(api, server):
    dead = {"tag": "button", "text": plain("Approve"), "value": {"d": "approve"}}
    off = {**BUTTON, "disabled": True}
    buttons = view_of(api, server, dead, off)["buttons"]
    assert [button["live"] for button in buttons] == [False, False]
    assert "top-level value" in buttons[0]["dead_because"]
    assert "disabled" in buttons[1]["dead_because"]


def test_buttons_that_open_a_page_count_as_links(api, server):
    open_url = {"type": "open_url", "default_url": "https://portal.test/r/1"}
    view = view_of(api, server, {**BUTTON, "behaviors": [open_url]})
    assert view["links"] == [{"text": "Go", "url": "https://portal.test/r/1"}]


def test_a_callback_value_is_the_apps_own_business(api):
    value = {"tag": "x", "element_id": "not an id!", "deep": [{"tag": "y"}] * 300}
    assert api.send(card({**BUTTON, "behaviors": [{"type": "callback", "value": value}]})).json()["code"] == 0


def test_json_that_is_not_a_card(api):
    assert api.send(json.dumps("text")).json()["code"] == 230001
