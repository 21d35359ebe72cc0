"""All of Unicode over each place that draws what a model or a stranger wrote."""

import pytest
from django.http import HttpResponse

from portal.lib import visible
from portal.web import pages
from tests.admin import tenant as tenants
from tests.visible.places import Place, all_places
from tests.visible.unicode import hidden_in

PLACES = list(all_places())


@pytest.mark.django_db
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
def test_nothing_of_unicode_hides(place: Place) -> None:
    drawn = place.draw(tenants.build("acme"))
    assert hidden_in(drawn) <= {"\n", "\t"}
    for text in set(place.shows):
        assert drawn.count(text) >= place.shows.count(text)


def test_what_is_typed_into_a_form_stays_what_it_is() -> None:
    page = '<input value="a\u200bb"><textarea>a\u200bb</textarea><script>"a\u200bb"</script>'
    page += '<p title="a\u200bb">a\u200bb'
    assert pages.show(page) == page.replace('title="a\u200bb">a\u200bb', 'title="a\\u200bb">a\\u200bb')


def test_a_page_of_our_own_words_is_left_alone() -> None:
    page = '<p class="x">한국어 OpenAPI 简体中文 · “…” – ␣⚠</p>\n\t<b>é</b>'
    assert pages.show(page) is page
    assert not visible.is_suspicious(page)


def test_an_answer_without_a_body_passes() -> None:
    empty = HttpResponse(status=204)
    del empty.headers["Content-Type"]
    pages.reveal(empty)
    assert empty.content == b""
