#!/bin/sh
# rustdoc that tells what it knows as JSON, which it does for nightly compilers and for those that take themselves for one. Only rustdoc is told
# so: what it stands on need not be built again.
RUSTC_BOOTSTRAP=1 exec rustdoc "$@" -Z unstable-options --output-format json
