#!/usr/bin/env bash
# Type-checks the portable crates for macOS on a machine without Apple's C compiler.
#
# `cargo check` links nothing, but aws-lc-sys insists on compiling its C sources first. The C
# compiler handed to it here makes empty objects: enough for type-checking Rust, for nothing else.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${1:-x86_64-apple-darwin}
rustup target add "$target" >/dev/null 2>&1 || {
    echo "skipped: the target $target cannot be installed here"
    exit 0
}
stub=$(mktemp -d)
trap 'rm -rf "$stub"' EXIT
cat > "$stub/cc" <<'STUB'
#!/usr/bin/env bash
while [ $# -gt 0 ]; do
    [ "$1" = -o ] && : > "$2"
    shift
done
STUB
cat > "$stub/ar" <<'STUB'
#!/usr/bin/env bash
for word in "$@"; do
    case $word in *.a) : > "$word" ;; esac
done
STUB
chmod +x "$stub/cc" "$stub/ar"
under=${target//-/_}
export "CC_$under=$stub/cc" "AR_$under=$stub/ar" "CFLAGS_$under=" AWS_LC_SYS_NO_JITTER_ENTROPY=1
cargo check --locked --target "$target" --target-dir target/check-macos \
    -p howdah-net -p howdah-store -p howdah-tree -p howdah -p howdah-cli
