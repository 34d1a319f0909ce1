# `make` lists the targets. Each installs what it needs on Debian and says what it does.
#
# The test profile optimises (Cargo.toml: [profile.dev] opt-level 1, dependencies 2), so tests and
# lints need one build; only `demo` and `bench` make a second, the release build.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help test-programs man demo kill-test hostile soak lab-quick report-libs lab-smoke lab-web lab-web-test peers peers-test btf bpf test differential bench bench-overload bench-hostile bench-sandbox bench-entries bench-files bench-daemon bench-turns bench-replay bench-predict bench-sim check-forward fuzz lint lint-deny lint-all fmt doc setup setup-bpf setup-bench setup-test console console-setup console-check ledger python python-tools free-threaded python-free-threaded notebooks dist image dist-test bench-python bench-fsspec test-metrics bench-stripe bench-campaign future sim-sessions bench-loops bench-steps house lint-features lint-unused lint-msrv lint-api

CARGO ?= cargo
FUZZ_SECONDS ?= 60
BTF := /sys/kernel/btf/vmlinux
SCRAPE_SECONDS ?= 60
GATE ?=
LEDGER ?=
PYTEST ?=
TESTS ?=
PYTHON_BUILD ?=
PYTHON_FT ?= python3.14t
DIST ?= target/dist
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
# `make test` runs the tests that need namespaces as whoever called it; they say why if they skip.
say = @printf '\n== %s\n' "$(1)"
# Package of each program that must be there.
need = for pair in $(1); do command -v "$${pair%%:*}" >/dev/null || echo "$${pair\#\#*:}"; done

# Installs what `missing` names, or says what it is where there is no apt-get.
define install
if [ -n "$$missing" ]; then \
	command -v apt-get >/dev/null || { echo "missing:" $$missing "(as Debian calls the packages, and there is no apt-get here): install them, then try again" >&2; exit 1; }; \
	echo "== installing" $$missing; \
	$(SUDO) apt-get update -q; \
	$(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $$missing; \
fi
endef

help: ## This list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup:
	@export PATH="$$PATH:/usr/sbin"; \
	missing="$$($(call need,gcc:gcc g++:g++ make:make ip:iproute2 strace:strace sshd:openssh-server ssh:openssh-client))"; \
	[ -e /usr/include/udt/udt.h ] || missing="$$missing libudt-dev"; \
	$(install)
	@for part in fmt:rustfmt clippy:clippy; do \
		$(CARGO) "$${part%%:*}" --version >/dev/null 2>&1 || rustup component add "$${part##*:}"; \
	done

setup-bench: setup
	@missing="$$($(call need,iperf3:iperf3 python3:python3))"; \
	$(install)

# Disks of other systems, which one test writes to, and what another one compares with.
setup-test: setup
	@export PATH="$$PATH:/usr/sbin"; \
	missing="$$($(call need,mount.exfat-fuse:exfat-fuse mkfs.exfat:exfatprogs ntfs-3g:ntfs-3g python3:python3 losetup:mount mkfs.ext4:e2fsprogs rsync:rsync setfacl:acl encfs:encfs faketime:faketime promtool:prometheus chromium:chromium fish:fish tcsh:tcsh zsh:zsh ksh:ksh93u+m))"; \
	$(install)

# clang and bpftool compile the congestion controls; the rest is for libbpf, which loads them.
setup-bpf: setup
	@export PATH="$$PATH:/usr/sbin"; \
	missing="$$($(call need,clang:clang bpftool:bpftool pkg-config:pkg-config))"; \
	for pair in bpf/bpf_helpers.h:libbpf-dev libelf.h:libelf-dev zlib.h:zlib1g-dev; do \
		[ -e "/usr/include/$${pair%%:*}" ] || missing="$$missing $${pair##*:}"; \
	done; \
	$(install)

demo: setup ## Move a real file over an emulated 10 Gbit/s, 100 ms, 1 % loss path, beside kernel TCP
	$(call say,building howdah (release))
	$(CARGO) build --release --locked -p howdah-cli
	$(call say,running the demo; it needs root for network namespaces)
	target="$${CARGO_TARGET_DIR:-target}"; $(SUDO) "$$target/release/howdah" demo

peers: peers-test ## Install and build all programs that the laboratory's testbed can run
	$(call say,installing and building the programs of others)
	target="$${CARGO_TARGET_DIR:-target}"; CARGO=$(CARGO) bash peers/make.sh "$$target/peers"

# What tests talk to: cheap, and from what `setup` installs.
peers-test: setup
	$(call say,building the peers of the tests (Debian's libudt))
	target="$${CARGO_TARGET_DIR:-target}"; mkdir -p "$$target/peers"; \
	g++ -O2 -Wall -Werror -I/usr/include/udt -o "$$target/peers/udt-peer" peers/udt/peer.cpp -ludt -lpthread; \
	g++ -O2 -Wall -Werror -I/usr/include/udt -o "$$target/peers/udt-measure" peers/udt/measure.cpp -ludt -lpthread

# Before anything is installed for nothing.
btf:
	@[ -r $(BTF) ] || { echo "$(BTF) is missing: the running kernel does not describe its types (CONFIG_DEBUG_INFO_BTF), so no BPF congestion control can be built for it" >&2; exit 1; }

bpf: btf setup-bpf ## Compile the papers' TCPs for the running kernel (bpf/ to target/bpf)
	$(call say,compiling bpf/)
	@out="$${CARGO_TARGET_DIR:-target}/bpf"; mkdir -p "$$out"; \
	PATH="$$PATH:/usr/sbin" bpftool btf dump file $(BTF) format c >"$$out/vmlinux.h"; \
	for source in bpf/*.c; do \
		object="$$out/$$(basename "$$source" .c).o"; \
		clang -target bpf -mcpu=v3 -O2 -g -Wall -Wextra -Wno-unused-parameter -Werror -I "$$out" -I bpf -c "$$source" -o "$$object"; \
		echo "$$object"; \
	done

test: peers-test setup-bpf setup-test ## Format, lints, tests, docs and the reduced laboratory: what CI runs
	$(call say,format)
	$(CARGO) fmt --all --check
	$(call say,lints)
	@# Without the simulator: no connection of such a build can be in the clear. And without what features add.
	$(CARGO) clippy -p howdah -p howdah-bpf --locked -- -D warnings
	$(CARGO) clippy --workspace --all-targets --features howdah-bpf/bpf,howdah/tokio --locked -- -D warnings
	@if [ -r $(BTF) ]; then $(MAKE) --no-print-directory bpf; else echo "bpf/ is not compiled: no $(BTF)"; fi
	$(MAKE) --no-print-directory lint-deny
	$(MAKE) --no-print-directory lint-api
	$(call say,docs)
	RUSTDOCFLAGS=-Dwarnings $(CARGO) doc --workspace --features howdah-bpf/bpf,howdah/tokio --no-deps --locked
	$(call say,the console)
	$(MAKE) --no-print-directory console-check
	$(call say,tests)
	$(MAKE) --no-print-directory test-programs
	@# The tests have built it, and a build of its own would have other features of its dependencies.
	$(MAKE) --no-print-directory python COMMAND_IS_BUILT=1
	$(call say,the reduced laboratory)
	@# With the program that the tests have built: it gives the same figures as a release build, which takes longer to make.
	$(MAKE) lab-quick COMMAND_IS_BUILT=1

test-programs: peers-test setup-bpf setup-test ## The tests alone, several programs at once (TESTS="--only howdah-cli" and other flags)
	CARGO=$(CARGO) python3 tools/run_tests.py $(TESTS) -- --workspace --features howdah-bpf/bpf,howdah/tokio --locked

# The page of the daemon. Who only builds the program needs none of this: what is built is committed.
CONSOLE := crates/howdah-daemon/console

console-setup: $(CONSOLE)/node_modules/.package-lock.json ## Fetch what the console is built and tested with, from npm

$(CONSOLE)/node_modules/.package-lock.json: $(CONSOLE)/package-lock.json
	@command -v npm >/dev/null || { echo "missing: node and npm" >&2; exit 1; }
	cd $(CONSOLE) && npm ci --ignore-scripts --no-audit --no-fund
	@touch $@

console: console-setup ## Build the console anew from its sources (crates/howdah-daemon/console)
	cd $(CONSOLE) && npm run --silent check && npm run --silent build

console-check: ## Whether the committed console is what its sources say; if there is no node, a word
	@if command -v npm >/dev/null; then \
		$(MAKE) --no-print-directory console-setup && cd $(CONSOLE) && npm run --silent check && npm run --silent compare; \
	else echo "the console is not compared with its sources, nor tested in a browser: there is no node"; fi

report-libs: ## What draws the figures of a report, anew from npm (crates/howdah-report/vega)
	@command -v npm >/dev/null || { echo "missing: node and npm" >&2; exit 1; }
	crates/howdah-report/vega/make.sh

lab-quick: setup ## JGN06, reduced, against the snapshot of its whole table (GATE=--update writes it)
	$(if $(COMMAND_IS_BUILT),,$(call say,building howdah (release)))
	$(if $(COMMAND_IS_BUILT),,$(CARGO) build --release --locked -p howdah-cli)
	$(call say,running scenarios/jgn06 --quick)
	@target="$${CARGO_TARGET_DIR:-target}"; out="$$(mktemp -d)"; trap 'rm -rf "$$out"' EXIT; \
	howdah="$$target/$(if $(COMMAND_IS_BUILT),debug,release)/howdah"; \
	"$$howdah" lab run scenarios/jgn06 --quick --out "$$out"; \
	"$$howdah" lab gate "$$out" $(GATE)

lab-web: ## Build the simulated laboratory as one HTML file that runs in a browser, without server or network: target/lab-web/laboratory.html
	CARGO="$(CARGO)" python3 -B tools/lab_web.py

lab-web-test: lab-web console-setup ## The same in a real Chromium, and its cells beside the program's
	@missing="$$($(call need,chromium:chromium))"; \
	$(install)
	$(CARGO) build --release --locked -p howdah-cli
	@target="$${CARGO_TARGET_DIR:-target}"; node crates/howdah-lab-web/page/test.mjs target/lab-web/laboratory.html "$$(command -v chromium)" "$$target/release/howdah"

ledger: setup ## docs/ledger.md and docs/ledger.json from the papers' full sets with five seeds; goes on where it was (LEDGER="--quick": the reduced sets)
	$(call say,building howdah (release))
	$(CARGO) build --release --locked -p howdah-cli
	@set -e; target="$${CARGO_TARGET_DIR:-target}"; dirs=""; \
	for set in jgn06 k14proto k13app wtrl10 future/f12.toml; do \
		dir="$${LAB_OUT:-results/ledger}$(LEDGER)/$$(basename "$$set" .toml)"; dirs="$$dirs $$dir"; \
		"$$target/release/howdah" lab run "scenarios/$$set" --seeds 5 $(LEDGER) --out "$$dir"; \
	done; \
	"$$target/release/howdah" lab ledger $$dirs --out docs/ledger.md

future: setup ## The papers' future work in full (scenarios/future, half an hour on two cores) and the tables of docs/future-work.md anew; goes on where it was
	$(call say,building howdah (release))
	$(CARGO) build --release --locked -p howdah-cli
	@set -e; target="$${CARGO_TARGET_DIR:-target}"; out="$${LAB_OUT:-results/future}"; \
	"$$target/release/howdah" lab run scenarios/future --out "$$out"; \
	python3 -B tools/doc_tables.py "$$target/release/howdah" docs/future-work.md "$$out"

lab-smoke: peers bpf ## A sample of every campaign of scenarios/real on the real testbed (four to five minutes)
	$(call say,building howdah with the papers' TCPs (release))
	$(CARGO) build --release --locked -p howdah-cli --features bpf
	$(call say,running scenarios/real --quick in namespaces; it needs root)
	@target="$${CARGO_TARGET_DIR:-target}"; out="$${LAB_OUT:-results/smoke-netns}"; \
	$(SUDO) "$$target/release/howdah" lab run scenarios/real scenarios/real/jgn06 --quick --on netns --runs 1 --again --out "$$out"; \
	"$$target/release/howdah" lab report "$$out"

bench-sim: setup ## Measure the simulator: data packets a second for one flow of ours
	$(call say,simulator speed)
	$(CARGO) run --release --locked -p howdah-proto --example sim_speed

sim-sessions: setup ## A million sessions of one file, and of a tree, in virtual time: lost connections and packets, hosts that die, failing and full disks, hostile peers (HOWDAH_SEEDS, or HOWDAH_SEED for one)
	$(call say,sessions in virtual time)
	HOWDAH_SEEDS=$${HOWDAH_SEEDS:-1000000} $(CARGO) test --release --locked -p howdah-session --test it sessions:: -- --nocapture

bench-steps: setup ## Measure, each alone: ranges of a RangeSet, codec, reports, sealing and opening, a step of the rate control, records of a manifest, a step of a session
	$(CARGO) bench --locked -p howdah-core --bench range_set
	$(CARGO) bench --locked -p howdah-proto --bench packets
	$(CARGO) bench --locked -p howdah-session --bench manifest --bench session

check-forward: setup ## Cells of K14proto whole and fast-forwarded, and by how much they differ (CHECK="--every 29 --from 3 scenarios/k14proto" and others)
	$(call say,fast-forward against whole runs)
	$(CARGO) run --release --locked -p howdah-lab --example check_forward -- $(or $(CHECK),--every 29 --from 3 scenarios/k14proto)

bench: setup-bench bench-sim ## Measure: the tables of docs/performance.md (BENCH="--quick" and other flags)
	$(call say,building howdah (release))
	$(CARGO) build --release --locked -p howdah-cli
	$(call say,measuring; it needs root for network namespaces)
	target="$${CARGO_TARGET_DIR:-target}"; $(SUDO) env HOWDAH="$$target/release/howdah" bash benches/run.sh $(BENCH)

# What builds, checks and tests the Python package, in an environment of its own.
python-tools: setup
	@missing="$$(PATH="$$PATH:/usr/sbin"; $(call need,python3:python3); python3 -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv)"; \
	$(install)
	@venv="$${CARGO_TARGET_DIR:-target}/python"; \
	[ -x "$$venv/bin/pip" ] || python3 -m venv "$$venv"; \
	"$$venv/bin/pip" install --quiet --disable-pip-version-check -r crates/howdah-python/tests/requirements.txt

# The module as a wheel in $target/wheels, with the command of the workspace's tests, for the interpreter of `$(1)` or as abi3. A build of its own
# (crates/howdah-python/Cargo.toml says why).
define wheel
target="$$(realpath "$${CARGO_TARGET_DIR:-target}")"; here=crates/howdah-python; \
export CARGO_TARGET_DIR="$$target"; rm -rf "$$target/wheels"; mkdir -p $$here/command/scripts; \
strip -o $$here/command/scripts/howdah "$$target/debug/howdah"; \
"$$target/python/bin/maturin" build --quiet --locked $(PYTHON_BUILD) $(1) --manifest-path $$here/Cargo.toml --out "$$target/wheels" || { rm -r $$here/command; exit 1; }; \
rm -r $$here/command
endef

python: python-tools ## Build the Python module (PYTHON_BUILD=--release), check its types, and test it in an environment of its own
	$(call say,building the module and the command)
	$(if $(COMMAND_IS_BUILT),,$(CARGO) build --workspace --features howdah-bpf/bpf,howdah/tokio --locked --bin howdah)
	@$(CARGO) fmt --manifest-path crates/howdah-python/Cargo.toml --check; \
	$(call wheel,); \
	"$$target/python/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps "$$target"/wheels/howdah-*.whl
	$(call say,types and tests of the module)
	@venv="$$(realpath "$${CARGO_TARGET_DIR:-target}")/python"; cd crates/howdah-python; \
	"$$venv/bin/pyright" --pythonpath "$$venv/bin/python"; \
	"$$venv/bin/python" -B -m pytest -q -rs -n 4 -p no:cacheprovider $(PYTEST)

# Before anything is installed for nothing.
free-threaded:
	@[ "$$($(PYTHON_FT) -c 'import sysconfig; print(sysconfig.get_config_var("Py_GIL_DISABLED"))' 2>/dev/null)" = 1 ] || { \
		echo "$(PYTHON_FT) is no free-threaded Python, or not there: install 3.14 or later, or build it (./configure --disable-gil), then say PYTHON_FT=/path/to/python3.14t" >&2; exit 1; }

# What is imported beside the module may bring the lock back if it does not say that it needs none: PYTHON_GIL=0 keeps it out.
python-free-threaded: free-threaded python-tools ## Build the module for free-threaded Python (PYTHON_FT=FILE, python3.14t unless said) and run its tests there
	$(call say,building the module for $(PYTHON_FT) and the command)
	$(if $(COMMAND_IS_BUILT),,$(CARGO) build --workspace --features howdah-bpf/bpf,howdah/tokio --locked --bin howdah)
	@$(call wheel,--interpreter $(PYTHON_FT)); \
	venv="$$target/python-free-threaded"; "$(PYTHON_FT)" -m venv --clear "$$venv"; \
	while read -r one; do \
		"$$venv/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: "$$one" || echo "there is no $$one for $(PYTHON_FT): what needs it is skipped"; \
	done <$$here/tests/requirements-tests.txt; \
	"$$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps "$$target"/wheels/howdah-*.whl
	$(call say,tests of the module without the global lock)
	@venv="$$(realpath "$${CARGO_TARGET_DIR:-target}")/python-free-threaded"; cd crates/howdah-python; \
	PYTHON_GIL=0 "$$venv/bin/python" -B -m pytest -q -rs -n 4 -p no:cacheprovider $(PYTEST)

notebooks: python-tools ## Run docs/notebooks on their reduced sets, and what tests the laboratory's tables and figures, with all that they need (after make python)
	@venv="$$(realpath "$${CARGO_TARGET_DIR:-target}")/python"; cd crates/howdah-python; \
	"$$venv/bin/pip" install --quiet --disable-pip-version-check -r tests/requirements-notebooks.txt; \
	"$$venv/bin/python" -B -m pytest -q -rs -p no:cacheprovider tests/notebooks.py tests/test_lab.py $(PYTEST)

# The oldest glibc that Rust's own library runs on; of Debian 8, RHEL 7 and later.
GLIBC := 2.17
TRIPLE := $(shell uname -m)-unknown-linux-gnu
# For which no abi3 wheel is. maturin knows it: it need not be there.
FREE_THREADED := python3.14t
dist: python-tools ## Make what is published: Debian package, tarball, wheels, image, list of materials, sums (target/dist)
	@missing="$$($(call need,dpkg-deb:dpkg objdump:binutils))"; \
	$(install)
	$(call say,building howdah for glibc $(GLIBC) (release))
	@target="$$(realpath "$${CARGO_TARGET_DIR:-target}")"; venv="$$target/python"; here=crates/howdah-python; \
	export PATH="$$venv/bin:$$PATH" CARGO_TARGET_DIR="$$target"; \
	$(CARGO) zigbuild --release --locked -p howdah-cli --target $(TRIPLE).$(GLIBC); \
	howdah="$$target/$(TRIPLE)/release/howdah"; share="$$target/dist-share"; out="$(DIST)"; \
	rm -rf "$$out" "$$share"; \
	mkdir -p "$$out" "$$share"/man/man1 "$$share"/bash-completion/completions "$$share"/zsh/site-functions "$$share"/fish/vendor_completions.d; \
	"$$howdah" man "$$share/man/man1"; \
	"$$howdah" completions bash >"$$share/bash-completion/completions/howdah"; \
	"$$howdah" completions zsh >"$$share/zsh/site-functions/_howdah"; \
	"$$howdah" completions fish >"$$share/fish/vendor_completions.d/howdah.fish"; \
	bash packaging/dist.sh "$$howdah" "$$share" "$$out"; \
	mkdir -p $$here/command/scripts; cp "$$howdah" $$here/command/scripts/; \
	for which in "" "--interpreter $(FREE_THREADED)"; do \
		maturin build --quiet --release --locked --zig --target $(TRIPLE) --compatibility manylinux_2_17 $$which --manifest-path $$here/Cargo.toml --out "$$out" || { rm -r $$here/command; exit 1; }; \
	done; \
	rm -r $$here/command; \
	python3 packaging/sbom.py crates/howdah-cli/Cargo.toml >"$$out/howdah.cdx.json"
	@if ! command -v apt-get >/dev/null && ! command -v umoci >/dev/null; then \
		echo "there is no umoci, and so no image: whoever reaches a registry of images has the Containerfile for it"; \
	else $(MAKE) --no-print-directory image || echo "no image could be made: whoever reaches a registry of images has the Containerfile for it"; fi
	@cd "$(DIST)"; sha256sum * >SHA256SUMS; ls -l

image: ## The Debian package of target/dist in an OCI archive beside it (needs root; debootstrap loads a Debian; DEBIAN=SUITE, MIRROR=URL, or BASE=DIRECTORY for one that is there)
	@missing="$$(PATH="$$PATH:/usr/sbin"; $(call need,debootstrap:debootstrap umoci:umoci))"; \
	$(install)
	$(call say,an image)
	@$(SUDO) env PATH="$$PATH:/usr/sbin" SOURCE_DATE_EPOCH="$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)}" DEBIAN="$${DEBIAN:-}" MIRROR="$${MIRROR:-}" BASE="$${BASE:-}" bash packaging/image.sh "$(DIST)"

bench-python: setup-bench ## Measure: the module and the command of a wheel through an emulated 10 Gbit/s, in turns (six minutes; BENCH="--quick", BENCH="--out docs/python.md" and other flags)
	@[ -e "$(DIST)/SHA256SUMS" ] || $(MAKE) --no-print-directory dist
	@venv="$$(mktemp -d)"; trap 'rm -rf "$$venv"' EXIT; python3 -m venv "$$venv"; \
	"$$venv/bin/pip" install --quiet --disable-pip-version-check --no-index --find-links "$(DIST)" howdah; \
	$(SUDO) "$$venv/bin/python" -B benches/python_cost.py $(BENCH)

dist-test: ## Install each package of target/dist in a place of its own and move files between them (needs root; debootstrap loads a Debian; OLD=TARBALL: one of an older version, too)
	@missing="$$(PATH="$$PATH:/usr/sbin"; $(call need,debootstrap:debootstrap python3:python3))"; \
	$(install)
	@[ -e "$(DIST)/SHA256SUMS" ] || $(MAKE) --no-print-directory dist
	$(call say,packages)
	$(SUDO) env PATH="$$PATH:/usr/sbin" OLD="$${OLD:-}" BASE="$${BASE:-}" PYTHON_FT="$(PYTHON_FT)" bash packaging/test.sh "$(DIST)"

bench-overload: setup ## A thousand idle clients and a thousand new ones at one server (HOWDAH_CROWD), and what ten thousand idle ones cost (HOWDAH_IDLE); ends by itself
	$(call say,who asks for nothing)
	-HOWDAH_IDLE=$${HOWDAH_IDLE:-10000} $(CARGO) test --release --locked -p howdah --test it idle:: -- --nocapture
	$(call say,a crowd at the door)
	ulimit -n "$$(ulimit -Hn)"; HOWDAH_CROWD=$${HOWDAH_CROWD:-1000} $(CARGO) test --release --locked -p howdah --test it overload:: -- --nocapture

bench-fsspec: setup-bench ## Measure: reads by fsspec beside its sftp (sshd) and http (nginx) on an emulated path (BENCH="--rounds 5 --out docs/python.md" and other flags)
	@missing="$$(PATH="$$PATH:/usr/sbin"; $(call need,sshd:openssh-server nginx:nginx-light))"; \
	$(install)
	@[ -e "$(DIST)/SHA256SUMS" ] || $(MAKE) --no-print-directory dist
	@venv="$$(mktemp -d)"; trap 'rm -rf "$$venv"' EXIT; python3 -m venv "$$venv"; \
	"$$venv/bin/pip" install --quiet --disable-pip-version-check "$(DIST)"/howdah-*-abi3-*.whl fsspec paramiko aiohttp pyarrow; \
	$(SUDO) "$$venv/bin/python" -B benches/fsspec_reads.py $(BENCH)

bench-stripe: setup-bench ## Measure: one file by 1, 2, 4 and 8 Dask workers, each behind an emulated path of its own, and what kill -9 costs (BENCH="--quick" and other flags)
	@[ -e "$(DIST)/SHA256SUMS" ] || $(MAKE) --no-print-directory dist
	@venv="$$(mktemp -d)"; trap 'rm -rf "$$venv"' EXIT; python3 -m venv "$$venv"; \
	wheel="$$(echo "$(DIST)"/howdah-*-abi3-*.whl)"; "$$venv/bin/pip" install --quiet --disable-pip-version-check "$$wheel[dask]"; \
	$(SUDO) "$$venv/bin/python" -B benches/stripe.py $(BENCH)

bench-campaign: ## Measure: 400 quick cells by Dask workers, two of which are killed, beside one machine's, file by file (BENCH="--workers 8" and other flags)
	@[ -e "$(DIST)/SHA256SUMS" ] || $(MAKE) --no-print-directory dist
	@venv="$$(mktemp -d)"; trap 'rm -rf "$$venv"' EXIT; python3 -m venv "$$venv"; \
	wheel="$$(echo "$(DIST)"/howdah-*-abi3-*.whl)"; "$$venv/bin/pip" install --quiet --disable-pip-version-check "$$wheel[dask,lab]"; \
	"$$venv/bin/python" -B benches/campaign.py $(BENCH)

bench-hostile: setup ## Starts of clients during a flood of first packets, 100,000 a second or what a core can make (HOWDAH_FLOOD, HOWDAH_STARTS), and copies beside each kind of hostile peer
	$(call say,a flood at the door)
	HOWDAH_FLOOD=$${HOWDAH_FLOOD:-100000} HOWDAH_STARTS=$${HOWDAH_STARTS:-50} $(CARGO) test --release --locked -p howdah --test it flood:: -- --nocapture
	$(call say,copies in any company)
	$(CARGO) test --release --locked -p howdah --test it company:: -- --nocapture

bench-floor: setup-bench ## Measure: processor time of ours beside the least that a sealed UDP flow could take, in turns (BENCH="--rounds 10 --out docs/performance.md" and other flags)
	$(call say,building howdah and the floor (release))
	$(CARGO) build --release --locked -p howdah-cli
	$(CARGO) build --release --locked -p howdah-net --example floor
	$(SUDO) env CARGO_TARGET_DIR="$${CARGO_TARGET_DIR:-target}" python3 -B benches/floor.py $(BENCH)

bench-loops: setup-bench ## Measure: two and four clients at a server with one loop and with two, each on a tenth of a core, in turns (BENCH="--rounds 9", BENCH=--whole and other flags)
	$(call say,building howdah (release))
	$(CARGO) build --release --locked -p howdah-cli
	$(call say,measuring; it needs root for control groups)
	target="$${CARGO_TARGET_DIR:-target}"; $(SUDO) env HOWDAH="$$target/release/howdah" python3 -B benches/loops.py $(BENCH)

bench-sandbox: setup-bench ## Measure: processor time with the sandbox and without, in turns (BENCH="--pairs 30" and other flags)
	$(call say,building howdah (release))
	$(CARGO) build --release --locked -p howdah-cli
	@target="$${CARGO_TARGET_DIR:-target}"; HOWDAH="$$target/release/howdah" python3 benches/sandbox_cost.py $(BENCH)

bench-files: setup-bench ## Measure: files and trees beside rsync, scp, rclone and tar over ssh (BENCH="--quick" and other flags)
	@missing="$$(PATH="$$PATH:/usr/sbin"; $(call need,ssh:openssh-client sshd:openssh-server rsync:rsync rclone:rclone))"; \
	$(install)
	$(call say,building howdah (release))
	$(CARGO) build --release --locked -p howdah-cli
	$(call say,measuring; it needs root for network namespaces)
	target="$${CARGO_TARGET_DIR:-target}"; $(SUDO) env HOWDAH="$$target/release/howdah" bash benches/files.sh $(BENCH)

test-metrics: ## Have Debian's Prometheus scrape a daemon and a server for a minute, and ask every query of the dashboard each second (SCRAPE_SECONDS=60)
	HOWDAH_TEST_SCRAPE_SECONDS="$(SCRAPE_SECONDS)" $(CARGO) test --workspace --features howdah-bpf/bpf,howdah/tokio --locked --test daemon prometheus_reads -- --nocapture

bench-daemon: ## Measure: a queue of 10,000 jobs, 100 that run, 200 streams of events, and what a job takes longer than its command (BENCH="--jobs 1000" and other flags)
	@missing="$$($(call need,python3:python3))"; \
	$(install)
	$(call say,building howdah (release))
	$(CARGO) build --release --locked -p howdah-cli
	target="$${CARGO_TARGET_DIR:-target}"; HOWDAH="$$target/release/howdah" python3 -B benches/daemon.py $(BENCH)

bench-replay: setup-bench ## Measure: forty recorded copies over the emulator, each replayed in the simulator (eight minutes; BENCH="--seconds 4 --only jittery" and other flags)
	$(call say,building howdah (release))
	$(CARGO) build --release --locked -p howdah-cli
	$(call say,measuring; it needs root for network namespaces)
	target="$${CARGO_TARGET_DIR:-target}"; $(SUDO) env HOWDAH="$$target/release/howdah" python3 -B benches/replay.py $(BENCH)

bench-predict: setup-bench ## Measure: forty predictions, and the copies that they are of (fifteen minutes; BENCH="--only jittery" and other flags)
	$(call say,building howdah (release))
	$(CARGO) build --release --locked -p howdah-cli
	$(call say,measuring; it needs root for network namespaces)
	target="$${CARGO_TARGET_DIR:-target}"; $(SUDO) env HOWDAH="$$target/release/howdah" python3 -B benches/replay.py --predict $(BENCH)

bench-turns: setup-bench ## Compare two builds, or two sets of flags, by the cases of bench-files in turns (BENCH="--other OTHER_HOWDAH --quick")
	$(call say,building howdah (release))
	$(CARGO) build --release --locked -p howdah-cli
	$(call say,measuring; it needs root for network namespaces)
	target="$${CARGO_TARGET_DIR:-target}"; $(SUDO) env HOWDAH="$$target/release/howdah" python3 -B benches/turns.py $(BENCH)

bench-entries: setup-bench ## Measure: the memory of both sides for ten million entries (ten minutes; BENCH="--entries 2000000" and other flags)
	$(call say,building howdah (release))
	$(CARGO) build --release --locked -p howdah-cli
	$(call say,measuring; it needs root to mount a tmpfs)
	target="$${CARGO_TARGET_DIR:-target}"; $(SUDO) env HOWDAH="$$target/release/howdah" python3 -B benches/entries.py $(BENCH)

# What a package ships beside the program; packaging/files.txt says where it goes.
man: setup ## Write man pages and completions to target/share
	$(CARGO) build --release --locked -p howdah-cli
	@target="$${CARGO_TARGET_DIR:-target}"; share="$$target/share"; howdah="$$target/release/howdah"; \
	mkdir -p "$$share"/man/man1 "$$share"/bash-completion/completions "$$share"/zsh/site-functions "$$share"/fish/vendor_completions.d; \
	"$$howdah" man "$$share/man/man1"; \
	"$$howdah" completions bash >"$$share/bash-completion/completions/howdah"; \
	"$$howdah" completions zsh >"$$share/zsh/site-functions/_howdah"; \
	"$$howdah" completions fish >"$$share/fish/vendor_completions.d/howdah.fish"; \
	find "$$share" -type f | sort

kill-test: setup ## kill -9 at 200 moments with resume after each; every i-th call of the disk fails; a daemon is killed at 300 moments (25 minutes)
	$(call say,kill -9 at any moment)
	HOWDAH_KILLS=$${HOWDAH_KILLS:-200} $(CARGO) test --locked -p howdah-cli --test faults kills:: -- --nocapture
	$(call say,every call fails once)
	HOWDAH_FAULTS=all $(CARGO) test --locked -p howdah-cli --test faults injected:: -- --nocapture
	$(call say,a daemon killed at any moment)
	HOWDAH_TEST_KILLS=$${HOWDAH_TEST_KILLS:-300} $(CARGO) test --locked -p howdah-cli --test daemon killed_at_any -- --nocapture

# Tests are found by their names: the rows of docs/faults.md (a45_...), the holes of docs/security.md (h1_...), and modules that
# keep one shut. That nothing is left out is a test of howdah-core (docs).
named = fn [ah][0-9]+_
# Rows of attacks whose tests have other names.
also = trust_decides_about_new_ no_host_name_can_ bad_names_are_refused_ a_racing_link_does_not_ hostile_names_cannot_ f06_ f31_special_files_ f37_links_owners_ only_full_sized_first_ what_was_sent_is_told_once_ a_server_that_does_not_answer_
# Each module of a program by itself.
run_tests = CARGO=$(CARGO) python3 tools/run_tests.py --tests
hostile: setup-bpf ## Hostile peers and neighbours: the tests of the A rows of docs/faults.md and of the holes of docs/security.md
	$(call say,what a peer may do to the protocol)
	$(run_tests) range_set:: -- --locked -p howdah-core --lib
	$(run_tests) hostile:: misbehaviour:: amplification:: door:: endpoint:: rebinding:: tls:: keys:: unconfirmed:: trap:: witness:: objects:: space:: control:: codec:: received:: marking:: -- --locked -p howdah-proto --lib --test it
	$(CARGO) test --locked -p howdah-proto --test bounds
	$(call say,what a peer or a neighbour may do to files and servers)
	@rows="$$(grep -rhoE '$(named)' crates | sed 's/fn //' | sort -u | tr '\n' ' ')"; \
	set -x; \
	$(run_tests) $$rows $(also) strangers:: -- --locked -p howdah-net -p howdah --lib --test it; \
	$(run_tests) $$rows $(also) workers:: journal:: codec:: manifest:: -- --locked -p howdah-session -p howdah-store -p howdah-tree --lib --test it; \
	$(run_tests) $$rows -- --locked -p howdah-lease -p howdah-audit --lib; \
	$(run_tests) $$rows -- --locked -p howdah-cli --features howdah-bpf/bpf --bins --test '*'; \
	$(run_tests) hostile:: -- --locked -p howdah-daemon --test it
	$(call say,anybody at all)
	$(run_tests) corpora:: -- --locked -p howdah-fuzz --test it

soak: setup ## A hundred copies and faults at once, SOAK_ROUNDS (60) times; the server must not grow
	$(call say,a swarm again and again)
	HOWDAH_SWARM_ROUNDS=$${SOAK_ROUNDS:-60} $(CARGO) test --locked -p howdah-cli --test faults swarm:: -- --nocapture

differential: setup-test ## Move 500 made-up trees with cp -a and rsync -aHAX and with howdah, and compare (HOWDAH_CASES, HOWDAH_SEED)
	$(call say,trees that others make)
	HOWDAH_CASES=$${HOWDAH_CASES:-500} $(CARGO) test --locked -p howdah --test it differential:: -- --nocapture

fuzz: setup ## Run every fuzz target for FUZZ_SECONDS (60) in all
	@rustup toolchain list | grep -q nightly || rustup toolchain install nightly --profile minimal
	@$(CARGO) fuzz --version >/dev/null 2>&1 || $(CARGO) install --locked cargo-fuzz
	$(CARGO) run -q --locked -p howdah-fuzz --example corpus -- unpack fuzz/corpus
	$(call say,fuzzing for $(FUZZ_SECONDS) s)
	@targets="$$($(CARGO) +nightly fuzz list)"; \
	seconds=$$(( $(FUZZ_SECONDS) / $$(wc -w <<<"$$targets") )); \
	for target in $$targets; do \
		echo "== $$target, $$seconds s"; \
		$(CARGO) +nightly fuzz run "$$target" -- -max_total_time="$$seconds" -timeout=10; \
	done

lint: setup ## Lints only
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	@# Without the simulator: no connection of such a build can be in the clear.
	$(CARGO) clippy -p howdah --locked -- -D warnings

# The list of advisories comes from a server of its own, which not everybody reaches.
lint-deny: ## Licences, sources, doubled versions and advisories of dependencies, if cargo-deny is there
	@if $(CARGO) deny --version >/dev/null 2>&1; then \
		$(CARGO) deny --locked check licenses bans sources; \
		if $(CARGO) deny fetch db >/dev/null 2>&1; then $(CARGO) deny --locked check advisories; \
		else echo "advisories are not checked: their list cannot be fetched from here"; fi; \
	else echo "dependencies are not checked: cargo-deny is not installed (make lint-all installs it)"; fi

house: ## How large each crate is, into docs/architecture.md (HOUSE=--circles: what imports in circles, and which names tie it)
	$(CARGO) run -q --locked -p howdah-core --example house -- $(or $(HOUSE),--write)

# Before there is a release there is nothing that may not change: a revision can be named for all that.
SEMVER_BASE = $(or $(API_BASE),$(shell git describe --tags --abbrev=0 --match 'v*' 2>/dev/null))

API_RUST := 1.95
lint-api: ## What the library shows to others against crates/howdah/public-api.txt (API=--update writes it), and with cargo-semver-checks, if it is there, against the last release or API_BASE=REVISION
	@case "$$(rustc --version)" in "rustc $(API_RUST)."*) ;; *) \
		echo "the library's public API is not compared: it is listed with Rust $(API_RUST), since rustdoc's JSON is another in each version"; exit 0;; esac; \
	out="$$(mktemp)"; trap 'rm -f "$$out"' EXIT; \
	RUSTDOC="$$PWD/tools/rustdoc-json.sh" $(CARGO) doc --quiet --locked --no-deps -p howdah --features tokio; \
	$(CARGO) run --quiet --locked -p howdah-core --example public_api -- "$${CARGO_TARGET_DIR:-target}/doc/howdah.json" >"$$out"; \
	if [ "$(API)" = --update ]; then cp "$$out" crates/howdah/public-api.txt; \
	else diff -u crates/howdah/public-api.txt "$$out" || { \
		echo "what howdah shows to others has changed; if it should, 'make lint-api API=--update' and a line in CHANGELOG.md" >&2; exit 1; }; fi
	@if [ -z "$(SEMVER_BASE)" ]; then echo "no release to hold the library's public API against, and API_BASE names no revision"; \
	elif $(CARGO) semver-checks --version >/dev/null 2>&1; then \
		$(CARGO) semver-checks -p howdah --features tokio --baseline-rev "$(SEMVER_BASE)"; \
	else echo "the library is not held against $(SEMVER_BASE): cargo-semver-checks is not installed"; fi

# Every set of the features of each crate that has several, as far as they are independent.
lint-features: ## The crates that have features, with every set of them
	@check() { echo "== $$*"; $(CARGO) check --quiet --locked "$$@"; }; \
	for crate in howdah-net howdah-session howdah-store; do check -p $$crate; check -p $$crate --features fuzzing; done; \
	for set in "" tokio fuzzing tokio,fuzzing; do check -p howdah --features "$$set"; done; \
	for sim in "" sim,; do for wire in "" wire, fuzzing,; do for tls in "" tls; do \
		check -p howdah-proto --no-default-features --features "$$sim$$wire$$tls"; \
	done; done; done; \
	check -p howdah-bpf; check -p howdah-cli

lint-unused: ## Dependencies that nothing uses, with cargo-machete, if it is there
	@if $(CARGO) machete --version >/dev/null 2>&1; then $(CARGO) machete; \
	else echo "unused dependencies are not looked for: cargo-machete is not installed (make lint-all installs it)"; fi

MSRV := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
lint-msrv: ## The workspace with the oldest compiler that it promises to build with (rust-version), if that can be had
	@rustup toolchain list 2>/dev/null | grep -q "^$(MSRV)" || rustup toolchain install "$(MSRV)" --profile minimal >/dev/null 2>&1 || \
		{ echo "skipped: Rust $(MSRV) cannot be installed here"; exit 0; }; \
	$(CARGO) +$(MSRV) check --workspace --locked --target-dir "$${CARGO_TARGET_DIR:-target}/msrv"

lint-all: lint ## The same, with cargo-deny and cargo-machete, which take some minutes to install, every set of features, the oldest compiler, and macOS
	@$(CARGO) deny --version >/dev/null 2>&1 || $(CARGO) install --locked cargo-deny
	@$(CARGO) machete --version >/dev/null 2>&1 || $(CARGO) install --locked cargo-machete
	$(MAKE) --no-print-directory lint-deny
	$(MAKE) --no-print-directory lint-api
	$(MAKE) --no-print-directory lint-unused
	$(MAKE) --no-print-directory lint-features
	$(MAKE) --no-print-directory lint-msrv
	bash tools/check-macos.sh

fmt: setup ## Format everything
	$(CARGO) fmt --all

doc: setup ## Build the docs, warnings are errors
	RUSTDOCFLAGS=-Dwarnings $(CARGO) doc --workspace --no-deps --locked
