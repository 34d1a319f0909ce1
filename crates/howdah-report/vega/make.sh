#!/bin/sh
# Makes vega.js.gz anew: the minified builds of three packages, from npm, one after the other. `make report-libs`.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
: >bundle.js
for package in vega@6.4.0 vega-lite@6.5.0 vega-embed@7.3.0; do
	name=${package%@*}
	tar -xzf "$(npm pack --silent "$package")"
	# What a licence asks to stand in every copy stands in every report.
	{ printf '/*! %s\n' "$package"; cat package/LICENSE; printf '*/\n'; } >>bundle.js
	grep -v '^//# sourceMappingURL=' "package/build/$name.min.js" >>bundle.js
	rm -rf package
done
gzip -9n <bundle.js >"$here/vega.js.gz"
wc -c bundle.js "$here/vega.js.gz"
