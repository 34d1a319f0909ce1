#!/usr/bin/env bash
# Makes an OCI archive of the Debian package of a directory, beside it: what Containerfile describes, without a daemon and without a registry of
# images. `make image` calls it, and so does `make dist`.
#   image.sh DIST     needs root (chroot), umoci, and debootstrap, which loads a Debian; DEBIAN=SUITE and MIRROR=URL: which, and from where;
#                     BASE=DIR: a Debian that is there already, to be copied: then nothing is loaded
set -euo pipefail
dist=$(realpath "$1")
cd "$(dirname "$0")/.."
date=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH=$date
suite=${DEBIAN:-stable} official=http://deb.debian.org/debian
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
umask 022
package=$(ls "$dist"/howdah_*.deb)
version=$(dpkg-deb -f "$package" Version)
version=${version%-*}

root=$work/root
# Without the caller's environment, whose locale the tree may not have.
inside() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive SOURCE_DATE_EPOCH="$date" chroot "$root" "$@"; }
if [ -n "${BASE:-}" ]; then
    cp -a "$BASE" "$root"
    cp "$package" "$root/tmp/howdah.deb"
    inside dpkg -i /tmp/howdah.deb >/dev/null
    inside sh -c 'command -v ssh' >/dev/null || echo "the image is without ssh: there is none in $BASE"
else
    debootstrap --variant=minbase "$suite" "$root" "${MIRROR:-$official}" >"$work/log" || { tail -5 "$work/log" >&2; exit 1; }
    code=$(. "$root/etc/os-release"; echo "$VERSION_CODENAME")
    sources() { printf "deb $1 $code main\ndeb $1 $code-updates main\ndeb $2 $code-security main\n" >"$root/etc/apt/sources.list"; }
    sources "${MIRROR:-$official}" "${MIRROR_SECURITY:-$official-security}"
    cp "$package" "$root/tmp/howdah.deb"
    inside sh -ec 'apt-get update -q; apt-get upgrade -qy; apt-get install -qy --no-install-recommends /tmp/howdah.deb openssh-client' \
        >"$work/log" 2>&1 || { tail -5 "$work/log" >&2; exit 1; }
    sources "$official" "$official-security"
fi
inside useradd --system --create-home --home-dir /var/lib/howdah howdah

# What Debian's own slim images leave out, and what is of this machine or of this hour.
find "$root/usr/share/doc" -type f ! -name copyright -delete
find "$root/usr/share/doc" -type l -delete
find "$root/usr/share/doc" -mindepth 1 -type d -empty -delete
rm -rf --one-file-system "$root"/usr/share/{man,info,groff,lintian,locale}/* "$root"/{dev,run,tmp,proc,sys}/* "$root"/var/cache/{apt,ldconfig,man}/* \
    "$root"/var/cache/debconf/*-old "$root"/var/lib/apt/lists/* "$root"/var/lib/dpkg/*-old "$root"/etc/*- "$root"/etc/{hostname,resolv.conf,.pwd.lock}
find "$root/var/log" -type f -delete
[ ! -e "$root/etc/machine-id" ] || : >"$root/etc/machine-id"
sed -Ei "s/^([^:]*:[^:]*):[0-9]+:/\1:$((date / 86400)):/" "$root/etc/shadow"
find "$root" -newermt "@$date" -print0 | xargs -0r touch --no-dereference --date="@$date"

layout=$work/howdah-$version image=$work/howdah-$version:$version when=$(date -ud "@$date" +%FT%TZ)
umoci init --layout "$layout"
umoci new --image "$image"
umoci insert --image "$image" --history.created "$when" --history.created_by "Debian $suite, openssh-client, howdah" "$root" /
umoci config --image "$image" --no-history --created "$when" --author "The Howdah authors" \
    --config.user howdah --config.workingdir /var/lib/howdah --config.entrypoint howdah \
    --config.exposedports 4433/udp --config.exposedports 4433/tcp \
    --config.env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    --config.label org.opencontainers.image.title=howdah \
    --config.label org.opencontainers.image.version="$version" \
    --config.label org.opencontainers.image.created="$when" \
    --config.label "org.opencontainers.image.licenses=MIT OR Apache-2.0" \
    --config.label "org.opencontainers.image.description=$(dpkg-deb -f "$package" Description | head -1)"
umoci gc --layout "$layout"
tar --directory "$layout" --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@$date" \
    -cf "$dist/howdah-$version-oci.tar" oci-layout index.json blobs
