"""Database clients under a tool: hooks that record whether a connection was made and anything was sent.

Import the module of your client: `over_psycopg`, `over_sqlalchemy`, `over_redis`. Nothing is here.
"""
