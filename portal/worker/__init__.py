"""What Celery's processes need beside tasks: a transport that outlives its broker, log, metrics, signs of life.

It may import what observes. The application is :mod:`portal.celery`, where Celery's command line looks for it.
"""
