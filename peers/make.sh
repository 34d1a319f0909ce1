#!/usr/bin/env bash
# Installs and builds the programs that `howdah lab run --on netns` can run, into the directory that is given.
# Goes on when one cannot be had, and says at the end which and why. `make peers` calls it.
set -uo pipefail

out="$(realpath -m "$1")"
here="$(realpath "$(dirname "$0")")"
cargo="${CARGO:-cargo}"
missing=()
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
there() { PATH="$PATH:/usr/sbin" command -v "$1" >/dev/null; }
mkdir -p "$out"

# Packages of servers start them. Ours must only run inside a run's own network, so nothing may be started
# while they are installed, nor at the next boot; what the machine had before stays as it was.
policy=/usr/sbin/policy-rc.d
forbid_starting() {
    [ ! -e "$policy" ] || as_root mv "$policy" "$policy.howdah"
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
    as_root chmod 755 "$policy"
    trap allow_starting EXIT
}
allow_starting() {
    as_root rm -f "$policy"
    [ ! -e "$policy.howdah" ] || as_root mv "$policy.howdah" "$policy"
    trap - EXIT
}

wanted=()
for pair in iperf3:iperf3 nuttcp:nuttcp srt-file-transmit:srt-tools ssh:openssh-client sshd:openssh-server \
    rsync:rsync rclone:rclone; do
    there "${pair%%:*}" || wanted+=("$pair")
done
if [ "${#wanted[@]}" -gt 0 ]; then
    as_root apt-get update -q || echo "apt-get update failed" >&2
    forbid_starting
    for pair in "${wanted[@]}"; do
        package="${pair##*:}"
        echo "== installing $package"
        if ! said="$(as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "$package" 2>&1)"; then
            missing+=("${pair%%:*}: $(grep '^E:' <<<"$said" | head -n 1)")
        elif [ "$package" = openssh-server ]; then
            for unit in ssh.service ssh.socket; do
                as_root systemctl disable "$unit" >/dev/null 2>&1 || true
            done
        fi
    done
    allow_starting
fi

echo "== building quic-measure (quinn)"
if "$cargo" build --release --locked --manifest-path "$here/quic/Cargo.toml" --target-dir "$out/build-quic"; then
    cp "$out/build-quic/release/quic-measure" "$out/"
else
    missing+=("quic, quic-bbr: peers/quic does not build")
fi

qcp=0.9.1
if ! "$out/qcp" --version 2>/dev/null | grep -q "$qcp"; then
    echo "== building qcp $qcp from the registry"
    if "$cargo" install --locked --version "$qcp" --root "$out/build-qcp/root" --target-dir "$out/build-qcp" qcp; then
        cp "$out/build-qcp/root/bin/qcp" "$out/"
    else
        missing+=("qcp: version $qcp does not build")
    fi
fi
missing+=("sendme: known, not built: its sending end comes first, prints a ticket and looks for relays")

printf '\n== programs that cannot be had here\n'
printf '%s\n' "${missing[@]}"
