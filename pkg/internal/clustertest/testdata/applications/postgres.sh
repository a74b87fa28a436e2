#!/bin/sh
# Does what the image's entrypoint does: creates the database in $PGDATA at the first start, then runs the server as a user other than root.
set -e
PATH=$PATH:$(ls -d /usr/lib/postgresql/*/bin | tail -1)
: "${PGDATA:=/var/lib/postgresql/data}"
export PGDATA
if [ "$(id -u)" = 0 ]; then
	mkdir -p "$PGDATA"
	chown postgres "$PGDATA"
	exec setpriv --reuid postgres --regid postgres --init-groups "$0" "$@"
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
	password=$(mktemp)
	printf %s "$POSTGRES_PASSWORD" >"$password"
	initdb --username=postgres --auth-host=scram-sha-256 --pwfile="$password" >/dev/null
	rm "$password"
	echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
fi
exec postgres -c listen_addresses='*' -c unix_socket_directories= "$@"
