"""How many SQL statements a tap takes: exactly; see tests/api/test_statements.py."""

from django.db import connection
from django.test.utils import CaptureQueriesContext

from channels_app.models import App
from portal.lib import clock
from tests.api.test_statements import counted
from tests.channels import forging
from tests.conftest import Clock

# Channel, delivery, interaction, account, the vote's row taken, request with stage, standing, decision, end, stage, two
# events at once, the topic's deliveries, the card's new content, the answer.
TAP = 14


def test_a_tap_with_one_card(db: None, time: Clock) -> None:
    scene = forging.build()
    App.objects.update(last_callback_at=clock.now())  # noted every ten seconds
    sent = scene.tap()
    with CaptureQueriesContext(connection) as queries:
        answer = scene.client.generic(
            sent.method, sent.path, sent.body, "application/json", headers=sent.headers
        )
    assert answer.status_code == 200
    assert forging.status(scene) == "approved"
    made = counted(queries)
    assert len(made) == TAP, "\n".join(made)
