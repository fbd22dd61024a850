# Everything that is run on this project, by name. CI runs `make test` and nothing else.
#
#   make quick   format, clippy and tests of the crates that changed, in under three minutes; while you work
#   make test    format, lints, rustdoc, the book, every test that needs no privilege, fuzz targets; as root the live tests too (BPF, real
#                broker, real clients), faults-short and a kernel in a virtual machine. Half an hour on two idle cores
#   make docs    the book (target/book), man pages and completions (target/manual); links, spelling, output that pages
#                quote, commands that they show
#   make test-long   what takes long and rarely fails: see TEST_LONG below; prints its list first
#   make demo    a real broker, a real stall, a verdict, and a page of it (root; installs what it needs)
#   make bench   beside tcpdump, tshark and DumpLogSegments: time, memory, live capture; what watching costs a broker
#                (root; installs what it needs, writes up to 3.5 GB into target/bench for a while, needs 6 GB of memory;
#                PARTS="files memory live connections segment explain live-verdicts export page compare fleet advise logs kernel
#                overhead always-on overhead-hooks overhead-tls locks"). Long: overhead 37 minutes, always-on 40, overhead-hooks 25,
#                overhead-tls 17.
#                OVERHEAD_SHAPES="one-record 16k connections-1 connections-100 connections-5000 unthrottled incident"
#                chooses loads of always-on (overhead: the first two), OVERHEAD_MINUTES=20 how long each is measured
#   make latency latencies beside Kafka's own request log, of every client; on an otherwise idle machine
#   make faults  injects causes on a real broker and prints how often explanations name them (root; SEEDS=10 SEED=1
#                ONLY=journal-stall,quiet; target/faults keeps recordings and results, and what is there is not done again);
#                `make faults-short` injects a dozen of them once each, on three brokers: part of `make test`;
#                `make faults-tls` the same over TLS, watched with --see-tls: part of `make test-long`;
#                `make faults-guest` those that only a hypervisor can, in a virtual machine; `make accuracy` has README and the
#                page on accuracy quote the last whole run
#   make fs      the same broker and load on one file system after the other, 15 minutes on an otherwise idle machine
#                (root; target/fs keeps recordings and results, and what is there is not done again; FRESH=1 drops it)
#   make tune    one change after the other for a broker's throughput; likewise, 20 minutes, target/tune;
#                `make tune-advice` follows what `advise` says, and compares where that leads with a search: half an hour,
#                target/tune-advice
#   make fleet   mysterious disk reads on one broker of nine, with real brokers: fleet, files, logs and advise must name
#                what was injected (root; 3 minutes, 4 GB of memory; target/fleet keeps it)
#   make supply-chain   licences, sources and bans of all packages (deny.toml); not in `make test`, because its tool takes minutes to build
#   make deb     the Debian package of the release binary, with man pages, completions and the book as Markdown (target/debian)
#   make stages  stages of produce requests under load beside Kafka's own request log (root); likewise
#   make page    the page of `report`: built, compared with the one in the repository, and tried in Chromium; `make web`
#                builds it, `make picture` takes the picture in README of it, and `make fs-picture` that of `make fs`'s
#   make attack  a watch under forged packets, files that block, silent and slow clients, 100,000 connections: ten minutes each (root)
#   make vmtest  the probes under Debian's kernels in a virtual machine; KERNELS="5.10 6.18 7.2" for others
#   make fuzz TARGET=frame    one fuzz target until it finds something or is interrupted

CARGO ?= cargo
export CARGO_TERM_COLOR ?= auto

# A clone that is built once has no use for what speeds up the next build.
ifdef CI
export CARGO_INCREMENTAL ?= 0
endif

# As root the live tests must run, and fail where they cannot; BROKERSCOPE_LIVE_TESTS=0 leaves them out.
ifeq ($(shell id -u),0)
BROKERSCOPE_LIVE_TESTS ?= 1
else
BROKERSCOPE_LIVE_TESTS ?= 0
endif

# Where a JDK is that starts its Flight Recorder cheaply, the test with it must run.
ifneq ($(shell grep -lsE '^JAVA_VERSION="(2[5-9]|[3-9][0-9])' /usr/lib/jvm/*/release),)
export BROKERSCOPE_NEWER_JDK ?= 1
endif

# Where a Go is that builds the newest clients, the tests with them must run.
ifneq ($(shell GOTOOLCHAIN=local go env GOVERSION 2>/dev/null | grep -E '^go1\.(2[6-9]|[3-9][0-9])'),)
export BROKERSCOPE_NEWER_GO ?= 1
endif

# Of vmtest; `make test` takes the first, and of the tests those that see what differs from kernel to kernel soonest.
KERNELS ?= 6.1 6.12
VMTEST_SHORT := matrix always_on

.PHONY: accuracy agent attack docs manual deb quick test-long live-long demo faults faults-always-on faults-guest faults-short faults-tls fleet fs tune tune-advice test bench latency stages build vmtest vmtest-pause setup-bench setup-build setup-deb setup-demo setup-docs setup-faults setup-fs setup-test setup-vmtest fmt fmt-check lint doc unit golden offline page picture fs-picture sbom supply-chain web live sample fuzz fuzz-smoke fuzz-long fuzz-corpus clean

build: setup-build
	$(CARGO) build --release -p brokerscope

demo: setup-demo
	$(CARGO) build --release -p brokerscope -p lab
	target/release/brokerscope-lab demo --page target/demo.html

test: setup-test fmt-check lint doc unit docs page agent fuzz-smoke live

quick:
	@scripts/quick

# Live tests that take long and whose subject rarely changes: old brokers and clients, the newest clients, following advice, a
# fleet of brokers, the locks of two JDKs, TLS of old brokers and newer JDKs, dashboards, the package and the service, object stores, SQL engines. The rest of the list is of the same kind:
# the build without Linux, more inputs for each fuzz target, one kernel more, a machine that is paused.
LIVE_LONG := always_on_latencies attacks client_properties dashboards deploy escalation fleet fleet_sql interruptions locks many_agents newest_clients old_versions power_cuts stores tls_versions tuning
TEST_LONG := offline fuzz-long live-long faults-tls vmtest vmtest-pause
test-long: setup-test
	@echo "test-long: $(TEST_LONG); live tests: $(LIVE_LONG); kernels: $(KERNELS)"
	$(MAKE) $(TEST_LONG)

live-long:
	tests/run $(LIVE_LONG)

# A watch under attack, ten minutes each: as it is shipped, because an unoptimised program alone takes a third of the ceiling.
attack: setup-test build
	BROKERSCOPE_BIN=$(CURDIR)/target/release/brokerscope BROKERSCOPE_ATTACK_SECONDS=600 tests/run attacks

setup-bench setup-build setup-deb setup-demo setup-docs setup-faults setup-fs setup-test setup-vmtest: setup-%:
	@setup/debian $*

# Fails where a target is missed.
bench: setup-bench
	$(CARGO) build --release -p brokerscope -p lab -p bench
	$(if $(filter page,$(or $(PARTS),page)),cd web && npm ci --silent)
	target/release/bench "$(CURDIR)/target/release/brokerscope" target/bench $(PARTS)

# Fails where less than 99 % of the requests are within the bounds.
latency: setup-test
	$(CARGO) build --release -p brokerscope -p lab -p e2e
	target/release/latency

# Fails where a target is missed. On an otherwise idle machine: what others slow is slow for another reason.
# Ends with the table that the page on accuracy shows.
SEEDS ?= 10
SEED ?= 1
ONLY ?=
faults: setup-faults
	$(CARGO) build --release -p brokerscope -p lab
	target/release/brokerscope-lab faults --seeds $(SEEDS) --seed $(SEED) --keep target/faults $(if $(ONLY),--only $(ONLY)); \
		reached=$$?; echo; cat target/faults/matrix.md; exit $$reached

# The same faults, recorded with --watch always-on, which cannot see all of them: docs/design/always-on.md says which.
faults-always-on: setup-faults
	$(CARGO) build --release -p brokerscope -p lab
	target/release/brokerscope-lab faults --watch always-on --seeds $(SEEDS) --seed $(SEED) --keep target/faults-always-on $(if $(ONLY),--only $(ONLY))

# README and the page on accuracy quote the last whole run of `make faults`.
accuracy:
	cp target/faults/accuracy.json docs/explanation/accuracy.json
	BLESS=1 $(OF_WORKSPACE) --quiet --lib faults::accuracy

# What only a hypervisor can do to a broker, in a guest without KVM: the broker takes a minute to start.
GUEST_FAULTS ?= steal
faults-guest: setup-faults setup-vmtest
	$(CARGO) build --release -p brokerscope -p lab
	VMTEST_SECONDS=3600 VMTEST_MIB=4096 vmtest/hypervisor $(lastword $(KERNELS)) \
		target/release/brokerscope-lab faults --seeds $(SEEDS) --seed $(SEED) --only $(GUEST_FAULTS)

# Interrupted, it goes on where it was. Ends with a comparison, target/fs/compare.md, and a page.
FRESH ?=
fs: setup-fs
	$(CARGO) build --release -p brokerscope -p lab
	target/release/brokerscope-lab fs --keep target/fs --page target/fs.html $(if $(FRESH),--fresh)

# By the binary that the tests have built; the machine may do other things.
faults-short: setup-test
	$(OF_WORKSPACE) --test sample --test live --no-run
	target/debug/brokerscope-lab faults --short --seed $(SEED)

# The same with clients that speak TLS, but for those that nobody sees then.
faults-tls: setup-test
	$(OF_WORKSPACE) --test sample --test live --no-run
	target/debug/brokerscope-lab faults --short --tls --seed $(SEED)

tune: setup-faults
	$(CARGO) build --release -p brokerscope -p lab
	target/release/brokerscope-lab tune --keep target/tune --page target/tune.html $(if $(FRESH),--fresh)

tune-advice: setup-faults
	$(CARGO) build --release -p brokerscope -p lab
	target/release/brokerscope-lab tune --follow-advice --keep target/tune-advice --page target/tune-advice.html $(if $(FRESH),--fresh)

fleet: setup-demo
	$(CARGO) build --release -p brokerscope -p lab
	rm -rf target/fleet
	target/release/brokerscope-lab fleet --keep target/fleet

# Fails where less than 98 % are within a millisecond, or the median is off by more than a tenth of one.
stages: setup-test
	$(CARGO) build --release -p brokerscope -p lab -p e2e
	target/release/stages

fmt:
	$(CARGO) fmt --all
	clang-format -i crates/probes/src/bpf/*.[ch]

fmt-check:
	$(CARGO) fmt --all --check
	clang-format --dry-run -Werror crates/probes/src/bpf/*.[ch]

lint:
	scripts/words
	$(CARGO) clippy --workspace --all-targets -- -D warnings

doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --quiet

# Tests are always picked from the whole workspace, never from a package: of a package alone cargo enables fewer features of
# the dependencies, and builds those and all above them once more.
OF_WORKSPACE = $(CARGO) test --workspace

# Of tools that run for seconds.
UNOPTIMISED := CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_DEV_DEBUG=0

# The book's builder, once: a debug build is made in half the time of an optimised one, and builds the book in a second.
MDBOOK_VERSION := 0.4.52
MDBOOK := target/tools/mdbook-$(MDBOOK_VERSION)/bin/mdbook
$(MDBOOK):
	@echo "docs: builds mdbook $(MDBOOK_VERSION) once, from crates.io: about a minute"
	$(UNOPTIMISED) $(CARGO) install mdbook --version =$(MDBOOK_VERSION) --locked --quiet \
		--debug --no-default-features --features search --root target/tools/mdbook-$(MDBOOK_VERSION)

docs: setup-docs $(MDBOOK) manual
	rm -rf target/book
	$(MDBOOK) build docs
	cd target/book/FontAwesome/fonts && rm *.eot *.svg *.ttf # for browsers older than ten years
	cd target/book/fonts && rm open-sans-*-600*.woff2 open-sans-*-800*.woff2 # weights that no text has
	scripts/docs
	$(OF_WORKSPACE) --quiet --test sample --test documents

manual:
	$(CARGO) build --quiet --workspace --example manual
	target/debug/examples/manual target/manual

# The package's builder, once: the last that Rust 1.85 builds. Without its own xz, which takes a library's headers.
CARGO_DEB_VERSION := 3.8.0
CARGO_DEB := target/tools/cargo-deb-$(CARGO_DEB_VERSION)/bin/cargo-deb
$(CARGO_DEB):
	@echo "deb: builds cargo-deb $(CARGO_DEB_VERSION) once, from crates.io"
	$(CARGO) install cargo-deb --version =$(CARGO_DEB_VERSION) --locked --quiet --no-default-features \
		--root target/tools/cargo-deb-$(CARGO_DEB_VERSION)

# What the program is built of, as CycloneDX: the builder of this list, once.
CARGO_SBOM_VERSION := 0.10.0
CARGO_SBOM := target/tools/cargo-sbom-$(CARGO_SBOM_VERSION)/bin/cargo-sbom
$(CARGO_SBOM):
	@echo "sbom: builds cargo-sbom $(CARGO_SBOM_VERSION) once, from crates.io"
	$(UNOPTIMISED) $(CARGO) install cargo-sbom --version =$(CARGO_SBOM_VERSION) --locked --quiet --debug \
		--root target/tools/cargo-sbom-$(CARGO_SBOM_VERSION)

sbom: $(CARGO_SBOM)
	mkdir -p target/sbom
	$(CARGO_SBOM) sbom --cargo-package brokerscope --output-format cyclone_dx_json_1_6 >target/sbom/brokerscope.cdx.json

# Advisories need RustSec's database from GitHub: `cargo-deny check advisories`, by the same program.
CARGO_DENY_VERSION := 0.18.3
CARGO_DENY := target/tools/cargo-deny-$(CARGO_DENY_VERSION)/bin/cargo-deny
$(CARGO_DENY):
	@echo "supply-chain: builds cargo-deny $(CARGO_DENY_VERSION) once, from crates.io: some minutes"
	$(UNOPTIMISED) $(CARGO) install cargo-deny --version =$(CARGO_DENY_VERSION) --locked --quiet --debug \
		--root target/tools/cargo-deny-$(CARGO_DENY_VERSION)

supply-chain: $(CARGO_DENY)
	$(CARGO_DENY) check licenses bans sources

deb: setup-deb $(CARGO_DEB) sbom
	$(CARGO) build --release -p brokerscope
	$(CARGO) run --quiet --release -p brokerscope --example manual -- target/manual
	$(CARGO_DEB) -p brokerscope --no-build

# The part that reads files and recordings builds without Linux, BPF or clang.
offline:
	$(CARGO) check -p brokerscope --no-default-features

# What needs no privilege. Live tests say there that they did not run.
unit:
	BROKERSCOPE_LIVE_TESTS=0 $(OF_WORKSPACE)

# The front end of `report`: one file that the binary embeds. It is in the repository, so that cargo needs no Node.
web: setup-test
	cd web && npm ci --silent && npm run --silent check && npm run --silent build

# The front end that is in the repository is what its sources build; the sample's page works in a browser.
page: setup-test
	cd web && npm ci --silent && npm run --silent check && npm run --silent build -- --outDir ../target/page --emptyOutDir
	cmp target/page/page.html web/dist/page.html || { echo "web/dist/page.html is not what web/ builds: make web"; exit 1; }
	$(OF_WORKSPACE) --test sample --no-run
	target/debug/brokerscope report samples/journal-stall -o target/page/sample.html
	target/debug/brokerscope compare first=samples/journal-stall@-10s second=samples/journal-stall@10s- --slo 65ms -o target/page/compare.html >/dev/null
	cd web && PAGE="$(CURDIR)/target/page/sample.html" COMPARE="$(CURDIR)/target/page/compare.html" npm test --silent

# The agent's jar that is in the repository is what its sources build.
agent: setup-test
	agent/build --check

# What README shows: of the sample, and of what `make fs` has left.
fs-picture: setup-test
	cd web && npm ci --silent && node scripts/comparison-picture.mjs "$(CURDIR)/target/fs.html" ../docs/pictures/file-systems.png

picture: setup-test
	cd web && npm ci --silent
	$(CARGO) build -p brokerscope
	target/debug/brokerscope report samples/journal-stall -o target/picture.html
	cd web && node scripts/picture.mjs "$(CURDIR)/target/picture.html" ../docs/pictures/page.png

golden:
	BLESS=1 $(CARGO) test -p report
	BLESS=1 $(CARGO) test -p page
	BLESS=1 $(CARGO) test -p top
	BLESS=1 $(CARGO) test -p brokerscope --test sample --test documents

# Records the shipped sample again; on an otherwise idle machine.
sample: setup-demo
	$(CARGO) build --release -p brokerscope -p lab
	rm -rf samples/journal-stall
	XDG_CACHE_HOME=/var/tmp target/release/brokerscope-lab demo --seconds 20 --seed 11 --page target/demo.html --keep samples/journal-stall >/dev/null

# Every fuzz target but analyzer, recording and store, one for each processor at a time: the same inputs every time, so that a failure can be seen
# again. The first quarter of those of `fuzz-long`. Ten minutes of each target: `make fuzz-long FUZZ_SECONDS=600
# FUZZ_PERCENT=10000`, where FUZZ_PERCENT is how many inputs there are and FUZZ_SECONDS (90) when a target ends before;
# FUZZ_SEED=2 tries others.
fuzz-smoke:
	FUZZ_PERCENT=25 fuzz/run smoke

fuzz-long:
	fuzz/run smoke
	fuzz/run long recording -max_total_time=$(or $(FUZZ_SECONDS),90)
	fuzz/run long store -max_total_time=$(or $(FUZZ_SECONDS),90)

fuzz:
	fuzz/run long $(TARGET)

# After a format has changed, or a long run has found its way further in.
fuzz-corpus:
	fuzz/run corpus

# By binaries that are built once; a test is repeated only where the machine was at fault (tests/run).
live:
ifeq ($(BROKERSCOPE_LIVE_TESTS),1)
	tests/run $(filter-out $(LIVE_LONG),$(shell tests/run --list))
	$(MAKE) faults-short
	$(MAKE) vmtest KERNELS=$(firstword $(KERNELS)) VMTEST_TESTS="$(VMTEST_SHORT)"
else
	@echo "LEFT OUT: the live tests (BPF, packet capture, a real broker, real clients) need root:"
	@echo "LEFT OUT: run 'make test' as root, or 'make live BROKERSCOPE_LIVE_TESTS=1'"
endif

# Each kernel is booted once; it needs no root, but the right to run apt-get download.
vmtest: setup-vmtest
	vmtest/matrix $(KERNELS)

# A guest that stands still for a while.
vmtest-pause: setup-vmtest
	vmtest/pause $(firstword $(KERNELS))

clean:
	$(CARGO) clean
