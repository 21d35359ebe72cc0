"""Django's PostgreSQL backend with a pool that gives out no dead connection; see :mod:`portal.postgresql.base`."""
