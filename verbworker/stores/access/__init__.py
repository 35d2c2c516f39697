"""Who may see and change what: the roles of the database, and the tenant that a connection serves."""
