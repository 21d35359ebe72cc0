"""Django's SQLite backend with a fair queue for its single writer; see :mod:`portal.sqlite.base`."""
