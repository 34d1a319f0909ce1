#!/usr/bin/env bash
# Installs each package of a directory in a place of its own, and moves a file between each two of them: `make dist-test`.
#   test.sh DIST      needs root (chroot), debootstrap, python3-venv; BASE=DIR: a Debian that is there already, to be copied;
#                     OLD=FILE: the tarball of an older version, a place like the others (docs/versions.md says what the two owe each other);
#                     PYTHON_FT=FILE: a free-threaded Python, python3.14t unless said; without one its wheel is not tried
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

# Each place: a way to run howdah, a directory that it sees as /tmp/h, and how its server is called: one that root starts wants to hear that
# this is meant.
declare -A run seen serve
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

# Of an interpreter, the wheel that is for it.
pythons=()
venv() {
    "$2" -m venv "$work/$1"
    "$work/$1/bin/pip" install --quiet --disable-pip-version-check --no-index --find-links "$dist" howdah
    mkdir "$work/$1/h"
    run[$1]="env HOME=$work/$1/h PATH=$work/$1/bin:$PATH" seen[$1]=$work/$1/h
    pythons+=("$1")
}
say "the wheel in a virtual environment"
venv wheel python3
free=${PYTHON_FT:-python3.14t}
if command -v "$free" >/dev/null; then
    say "the wheel of free-threaded Python in a virtual environment"
    venv free "$free"
    places+=(free)
    env -u PYTHON_GIL "$work/free/bin/python" -W error -c 'import sys, howdah; assert not sys._is_gil_enabled()'
else
    say "there is no $free (PYTHON_FT=FILE names one): the wheel of free-threaded Python is not tried"
fi

if ! ls "$dist"/howdah-*-oci.tar >/dev/null 2>&1; then
    say "there is no image: the Containerfile is not tried"
elif ! command -v umoci >/dev/null; then
    say "umoci is not installed: the image is not tried"
else
    say "the image, unpacked"
    mkdir "$work/layout"
    tar -xf "$dist"/howdah-*-oci.tar -C "$work/layout"
    (cd "$work/layout/blobs/sha256" && for blob in *; do echo "$blob  $blob"; done | sha256sum --quiet --check)
    version=$(basename "$(ls "$dist"/howdah-*-oci.tar)" -oci.tar)
    umoci unpack --image "$work/layout:${version#howdah-}" "$work/image"
    rm -r "$work/layout"
    root=$work/image/rootfs
    # As whom it runs, and what: as a runtime has it from the image.
    read -r user command < <(python3 -c 'import json, sys
process = json.load(open(sys.argv[1]))["process"]
print("{uid}:{gid}".format(**process["user"]), *process["args"])' "$work/image/config.json")
    [ "$command $((${user%:*} > 0))" = "howdah 1" ] || { echo "the image runs '$command' as $user"; exit 1; }
    chroot "$root" test -x /usr/bin/ssh
    # A runtime has them there.
    mknod -m 666 "$root/dev/null" c 1 3
    mknod -m 666 "$root/dev/urandom" c 1 9
    mkdir "$root/tmp/h"
    chown "$user" "$root/tmp/h"
    run[image]="chroot --userspec=$user $root env HOME=/tmp/h" seen[image]=$root/tmp/h serve[image]=
    places+=(image)
fi

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
    chown --reference="${seen[$server]}" "${seen[$server]}"/{root,keys}
    # What the one before said is not taken for its words.
    : >"$work/log"
    # Not `exec` in a pipe: its own process, which is ended by its number.
    ${run[$server]} howdah serve ${serve[$server]---user root} --root "${!home}/root" --listen 127.0.0.1:0 --authorized-keys "${!home}/keys" >"$work/log" 2>&1 &
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
    for client in "${pythons[@]}"; do
        [ "$server" != "$client" ] || continue
        HOME=$work/$client/h "$work/$client/bin/python" - "$work/$client/h/data" "howdah://$address/from-$client.py" <<'PYTHON'
import sys, howdah
howdah.copy(sys.argv[1], sys.argv[2])
assert howdah.verify(sys.argv[1], sys.argv[2], checksum=True)
PYTHON
        cmp "$work/$client/h/data" "${seen[$server]}/root/from-$client.py"
        moved=$((moved + 1))
    done
    if [ "$server" = image ]; then
        # And the other way: what the image serves is fetched.
        ${run[deb]} howdah cp "howdah://$address/from-wheel" "$home_deb/fetched" >/dev/null 2>"$work/err" || { cat "$work/err"; exit 1; }
        cmp "${seen[wheel]}/data" "${seen[deb]}/fetched"
        moved=$((moved + 1))
    fi
    kill "$serving"
    wait "$serving"
    serving=
done
say "$moved files moved between the packages, all equal"
