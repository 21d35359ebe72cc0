"""Serving HTTP: from a connection to Django and back.

:mod:`~portal.serving.handler` is the one way into Django, :mod:`~portal.serving.threads` where it runs,
:mod:`~portal.serving.lanes` which request may take how many threads, and for how long.
Imports :mod:`portal.lib`, :mod:`portal.api` and :mod:`portal.web`; the apps are named in the settings alone.
"""
