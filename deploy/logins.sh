#!/bin/bash
# The logins of compose.yaml, each a member of one role of sql/roles.sql, whose grants `verbworker db migrate --roles` gives.
# The image of Postgres runs it when the volume is new. For a volume from before there were logins:
#   docker compose exec postgres bash /docker-entrypoint-initdb.d/00-logins.sh
set -euo pipefail
for part in WORKER CONSOLE INGRESS; do
  name="VERBWORKER_${part}_PASSWORD"
  psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" \
    --set login="${part,,}" --set role="verbworker_${part,,}" --set password="${!name}" <<'SQL'
SELECT format('CREATE ROLE %I NOLOGIN', :'role')
WHERE NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = :'role') \gexec
SELECT format('CREATE ROLE %I LOGIN', :'login')
WHERE NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = :'login') \gexec
ALTER ROLE :"login" PASSWORD :'password';
GRANT :"role" TO :"login";
-- The tables of the example: verbs write to them, in workers and in the ingress.
GRANT USAGE ON SCHEMA public TO :"role";
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO :"role";
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO :"role";
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO :"role";
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT USAGE ON SEQUENCES TO :"role";
SQL
done
