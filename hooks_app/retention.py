"""What an organization's ``retention_days`` has put an end to is deleted: ended requests and the call log. Audited."""

from datetime import datetime, timedelta

import structlog
from django.db import transaction

from channels_app import interactions
from channels_app.outbox import deliveries
from hooks_app import calls, confirmations
from portal import audit
from portal.lib import clock
from portal.models import Organization

# Rows per transaction, and transactions per organization and run: the next run goes on.
BATCH = 200
MAX_BATCHES = 100

log = structlog.get_logger(__name__)


def purge() -> int:
    """Delete what is older than its organization keeps. Returns the number of requests and calls deleted.

    Each batch is one transaction with its audit event. An organization that fails does not hold up the others.
    """
    total = 0
    for organization in Organization.objects.filter(retention_days__isnull=False):
        assert organization.retention_days is not None
        before = clock.now() - timedelta(days=organization.retention_days)
        try:
            total += _purge(organization, before)
        except Exception:
            log.exception("retention.failed", organization=organization.slug)
    return total


def _purge(organization: Organization, before: datetime) -> int:
    total = 0
    for _batch in range(MAX_BATCHES):
        done = _purge_batch(organization, before)
        total += done
        if not done:
            break
    return total


@transaction.atomic
def _purge_batch(organization: Organization, before: datetime) -> int:
    purged = confirmations.purge(organization, before=before, limit=BATCH)
    interactions.forget(purged)
    deliveries.forget(purged)
    requests = len(purged)
    entries = calls.purge(organization, before=before, limit=BATCH)
    if requests or entries:
        audit.append(
            organization=organization,
            actor=audit.SYSTEM,
            action="retention.purged",
            kind="organization",
            id=organization.pk,
            name=organization.slug,
            data={"before": clock.rfc3339(before), "requests": requests, "calls": entries},
        )
    return requests + entries
