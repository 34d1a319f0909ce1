#!/usr/bin/env bash
# Installs each package of a directory in a place of its own, and moves a file between each two of them: `make dist-test`.
#   test.sh DIST      needs root (chroot), debootstrap, python3-venv; BASE=DIR: a Debian that is there already, to be copied;
#                     OLD=FILE: the tarball of an older version, a place like the others (docs/versions.md says what the two owe each other)
set -euo pipefail
dist=$(realpath "$1")
work=$(mktemp -d)
serving=
cleanup() {
    [ -z "$serving" ] || { kill "$serving" && wait "$serving"; } 2>/dev/null || true
    rm -rf --one-file-system "$work"
}
trap cleanup EXIT
say() { printf '== %s\n' "$*"; }

(cd "$dist" && sha256sum --quiet --check SHA256SUMS)
say "the sums are right"
if command -v lintian >/dev/null; then
    lintian --allow-root --fail-on error,warning "$dist"/howdah_*.deb
    say "lintian has no error and no warning"
else
    say "lintian is not installed: the Debian package is not looked at"
fi

# Each place: a way to run howdah, and a directory that it sees as /tmp/h.
declare -A run seen
say "the Debian package in a Debian of its own"
if [ -n "${BASE:-}" ]; then
    cp -a "$BASE" "$work/debian"
else
    debootstrap --variant=minbase "${DEBIAN:-bookworm}" "$work/debian" "${MIRROR:-http://deb.debian.org/debian}" >"$work/debootstrap.log" ||
        { tail -5 "$work/debootstrap.log"; exit 1; }
fi
cp "$dist"/howdah_*.deb "$work/debian/tmp/"
chroot "$work/debian" sh -c 'dpkg -i /tmp/howdah_*.deb' >/dev/null
mkdir "$work/debian/tmp/h"
run[deb]="chroot $work/debian env HOME=/tmp/h" seen[deb]=$work/debian/tmp/h
chroot "$work/debian" test -s /usr/share/man/man1/howdah.1.gz

say "the tarball below a directory"
mkdir "$work/tarball"
tar -xzf "$dist"/howdah-*.tar.gz -C "$work/tarball" --strip-components=1
mkdir "$work/tarball/h"
run[tarball]="env HOME=$work/tarball/h PATH=$work/tarball/usr/bin:$PATH" seen[tarball]=$work/tarball/h
places=(deb tarball wheel)

if [ -n "${OLD:-}" ]; then
    say "the tarball of an older version"
    mkdir "$work/old"
    tar -xzf "$OLD" -C "$work/old" --strip-components=1
    mkdir "$work/old/h"
    run[old]="env HOME=$work/old/h PATH=$work/old/usr/bin:$PATH" seen[old]=$work/old/h
    places+=(old)
fi

say "the wheel in a virtual environment"
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-index "$dist"/howdah-*.whl
mkdir "$work/venv/h"
run[wheel]="env HOME=$work/venv/h PATH=$work/venv/bin:$PATH" seen[wheel]=$work/venv/h

for place in "${places[@]}"; do
    [ "${seen[$place]%/tmp/h}" = "${seen[$place]}" ] && here=${seen[$place]} || here=/tmp/h
    printf -v "home_$place" %s "$here"
    ${run[$place]} howdah --version
    ${run[$place]} howdah key new >"$work/$place.key" 2>/dev/null
    head -c 20000000 /dev/urandom >"${seen[$place]}/data"
done

moved=0
for server in "${places[@]}"; do
    home=home_$server
    for client in "${places[@]}"; do
        [ "$server" = "$client" ] || cat "$work/$client.key"
    done >"${seen[$server]}/keys"
    mkdir "${seen[$server]}/root"
    # Not `exec` in a pipe: its own process, which is ended by its number.
    ${run[$server]} howdah serve --user root --root "${!home}/root" --listen 127.0.0.1:0 --authorized-keys "${!home}/keys" >"$work/log" 2>&1 &
    serving=$!
    # The line behind the one with the address: a line is not written at once.
    until grep -q 'server key' "$work/log"; do
        kill -0 "$serving" 2>/dev/null || { cat "$work/log"; exit 1; }
        read -rt 0.05 <> <(:) || true
    done
    address=$(sed -n 's/.*serving .* on //p' "$work/log" | head -1)
    for client in "${places[@]}"; do
        [ "$server" != "$client" ] || continue
        home=home_$client
        ${run[$client]} howdah cp --accept-new "${!home}/data" "howdah://$address/from-$client" >/dev/null 2>"$work/err" ||
            { cat "$work/err"; exit 1; }
        cmp "${seen[$client]}/data" "${seen[$server]}/root/from-$client"
        moved=$((moved + 1))
    done
    if [ "$server" != wheel ]; then
        HOME=$work/venv/h "$work/venv/bin/python" - "$work/venv/h/data" "howdah://$address/from-python" <<'PYTHON'
import sys, howdah
howdah.copy(sys.argv[1], sys.argv[2])
assert howdah.verify(sys.argv[1], sys.argv[2], checksum=True)
PYTHON
        cmp "$work/venv/h/data" "${seen[$server]}/root/from-python"
        moved=$((moved + 1))
    fi
    kill "$serving"
    wait "$serving"
    serving=
done
say "$moved files moved between the packages, all equal"
