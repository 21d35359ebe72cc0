"""Links with which a person chooses a password: the only writer of :class:`portal.models.AccountLink`.

A link goes to the person's address, or is shown once where no e-mail is set up. It ends when it is used, when a newer
one is made, when the password or the address changes, when the account is switched off, and after :data:`LIFETIME`.
"""

from datetime import timedelta
from smtplib import SMTPException

from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.core.mail import send_mail
from django.db import transaction
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _

from portal import audit
from portal.lib import clock, crypto
from portal.lib.problems import FieldError, Problem, invalid
from portal.models import AccountLink, User
from portal.models.links import LINK_PREFIX
from portal.people import accounts

# Long enough for a link that is sent before a weekend, short enough that an old mailbox opens nothing.
LIFETIME = timedelta(hours=72)


def are_mailed() -> bool:
    """Whether links go by e-mail; without it they are shown once to who makes them."""
    return bool(settings.EMAIL_URL)


def issue(user: User, *, made_by: User | None, actor: audit.Actor) -> tuple[AccountLink, str]:
    """Make a link and return it with its address, which nobody sees again. A link that was open ends.

    Raises 400 ``invalid`` for an account that is switched off. ``user`` is locked by the caller.
    """
    if not user.is_active:
        raise invalid(
            FieldError("user", "inactive", f"{user.username} is switched off; activate the account first")
        )
    plain, digest = crypto.new_bearer(LINK_PREFIX)
    accounts.end_links(user)
    accounts.note_given(user)
    now = clock.now()
    link = AccountLink.objects.create(
        user=user,
        digest=digest,
        state=_state(user),
        made_by=made_by,
        created_at=now,
        expires_at=now + LIFETIME,
    )
    accounts.record(user, "user.link_made", actor)
    return link, f"{settings.BASE_URL}{reverse('account_link', args=[plain])}"


def send(link: AccountLink, address: str) -> None:
    """Send the link to the person's address; call it when the transaction that made it is over.

    A link that couldn't be sent ends. Raises 503 ``mail_failed``.
    """
    user = link.user
    text = render_to_string(
        "portal/link_mail.txt", {"person": user, "address": address, "until": clock.rfc3339(link.expires_at)}
    )
    try:
        send_mail(_("Choose your password"), text, settings.DEFAULT_FROM_EMAIL, [user.email])
    except (OSError, SMTPException) as error:
        AccountLink.objects.filter(pk=link.pk, ended_at__isnull=True).update(ended_at=clock.now())
        # The server's words may repeat what was sent to it.
        raise Problem(
            503,
            "mail_failed",
            _("The e-mail could not be sent (%(fault)s), and its link is worthless. Try again.")
            % {"fault": type(error).__name__},
        ) from None


def find(plain: str) -> AccountLink | None:
    """The link behind ``plain``, with its user, if it works now."""
    link = AccountLink.objects.select_related("user").filter(digest=crypto.bearer_digest(plain)).first()
    return link if link is not None and _works(link) else None


def use(plain: str, password: str) -> User | None:
    """Set the password that the person chose with a link; ``None`` if the link no longer works.

    The account's row is locked first: of two uses at once the second finds the link ended.
    """
    found = find(plain)
    if found is None:
        return None
    hashed = make_password(password)
    with transaction.atomic():
        user = accounts.locked(found.user_id)
        link = AccountLink.objects.get(pk=found.pk)
        link.user = user
        if not _works(link):
            return None
        accounts.choose_password(user, hashed, by_link=True)
    return user


def _works(link: AccountLink) -> bool:
    return (
        link.ended_at is None
        and link.expires_at > clock.now()
        and link.user.is_active
        and crypto.same(link.state, _state(link.user))
    )


def _state(user: User) -> str:
    """What a link is bound to: the password that the account has, and where it is sent."""
    return salted_hmac("portal.links", f"{user.password}\n{user.email}", algorithm="sha256").hexdigest()
