#!/usr/bin/env bash
# Makes the Debian package and the tarball of a binary; `make dist` calls it. What goes where is packaging/files.txt.
#   dist.sh BINARY SHARE OUT      SHARE: man pages and completions, as `make man` lays them out
set -euo pipefail
cd "$(dirname "$0")/.."
binary=$1 share=$2 out=$3
version=$("$binary" --version | sed 's/^howdah \([^ ]*\).*/\1/')
date=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
# Of compression: 1 is quick.
level=${DIST_LEVEL:-6}

# All files below a directory.
stage() {
    local source place mode file
    while read -r source place mode; do
        case $source in
            '' | '#'*) continue ;;
            target/release/howdah) source=$binary ;;
            target/share/*) source=$share/${source#target/share/} ;;
        esac
        for file in $source; do
            install -Dm"$mode" "$file" "$1$(case $place in */) echo "$place${file##*/}" ;; *) echo "$place" ;; esac)"
        done
    done <packaging/files.txt
}

# The newest version of glibc that it asks for.
glibc() {
    objdump -T "$1" | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -1 | cut -d_ -f2
}

# Nothing else is there everywhere: a build with other features (bpf links libelf) is none to publish.
others=$(objdump -p "$binary" | awk '/NEEDED/ { print $2 }' | grep -vE '^(lib(c|m|dl|rt|pthread)\.so|ld-linux)' || true)
[ -z "$others" ] || { echo "$binary needs" $others "beside glibc" >&2; exit 1; }

# A tarball: unpack it anywhere, or below /.
tree=$work/howdah-$version
stage "$tree"
tar --directory "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$date" -c "howdah-$version" |
    gzip "-$level" -n >"$out/howdah-$version-linux-$(uname -m).tar.gz"

# The Debian package. The licences are in its copyright file, as Debian has it.
root=$work/deb doc=$work/deb/usr/share/doc/howdah
stage "$root"
rm "$doc"/LICENSE-*
gzip -9n "$root"/usr/share/man/man1/*.1
install -Dm644 packaging/copyright "$doc/copyright"
gzip -9nc "$doc/CHANGELOG.md" >"$doc/changelog.gz"
rm "$doc/CHANGELOG.md"
gzip -9n "$doc"/*.json
maintainer='The Howdah authors <howdah@packages.invalid>'
printf 'howdah (%s-1) unstable; urgency=medium\n\n  * Built from the sources of version %s.\n\n -- %s  %s\n' \
    "$version" "$version" "$maintainer" "$(date -Rud "@$date")" | gzip -9n >"$doc/changelog.Debian.gz"
# It is nobody's request to Debian.
mkdir -p "$root/usr/share/lintian/overrides" "$root/DEBIAN"
echo 'howdah: initial-upload-closes-no-bugs' >"$root/usr/share/lintian/overrides/howdah"
cat >"$root/DEBIAN/control" <<CONTROL
Package: howdah
Version: $version-1
Architecture: $(dpkg --print-architecture)
Maintainer: $maintainer
Installed-Size: $(du -sk "$root" | cut -f1)
Depends: libc6 (>= $(glibc "$binary"))
Recommends: openssh-client
Section: net
Priority: optional
Description: moves big data over long fat networks at the rate of the link
 Howdah copies files and trees between machines that are far apart: verified,
 resumable, encrypted, on one UDP port, with nothing to tune. It speaks scp's
 grammar over ssh, and serves directories to holders of keys without it.
 .
 It also has the laboratory that measures transports beside each other, in
 simulated and in emulated networks.
CONTROL
(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
find "$root" -newermt "@$date" -print0 | xargs -0r touch --no-dereference --date="@$date"
dpkg-deb --root-owner-group -Zxz "-z$level" --build "$root" "$out" >/dev/null

cp packaging/Containerfile "$out/"
echo "glibc $(glibc "$binary") or later"
