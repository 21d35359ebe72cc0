"""The sample sandbox below ``/sandbox``, for ``serve`` with ``HOOKGATE_SANDBOX=1``."""

from django.conf import settings

from channels_app.sandbox import asgi, samples

# The sample organization's channel; see examples/sample.yaml.
CALLBACK_PATH = "/channels/acme/finance-chat/callback"

application = asgi.application(
    samples.sample(f"{settings.BASE_URL}{CALLBACK_PATH}", state_path=settings.VAR_DIR / "sandbox.json")
)
