# Every task of this project, by name. CI runs `make test` and nothing else.
#
#   make quick   format, clippy and tests of the changed crates, in under three minutes; for while you work
#   make test    format, lints, rustdoc, the book, every test that needs no privilege, fuzz targets; as root also the live tests
#                (BPF, real broker, real clients), faults-short and a kernel in a virtual machine. Half an hour on two idle cores
#   make docs    the book (target/book), man pages and completions (target/manual); checks links, spelling, and the output
#                and commands that pages quote
#   make test-long   slow tests that rarely fail: see TEST_LONG below; prints its list first
#   make demo    a real broker, a real stall, its verdict and its page (root; installs what it needs)
#   make bench   comparison with tcpdump, tshark and DumpLogSegments: time, memory, live capture; overhead on a broker
#                (root; installs what it needs, temporarily writes up to 3.5 GB into target/bench, needs 6 GB of memory;
#                PARTS="files memory live connections segment explain live-verdicts export page compare fleet advise logs kernel
#                overhead always-on overhead-hooks overhead-tls locks"). Long: overhead 37 minutes, always-on 40,
#                overhead-hooks 25, overhead-tls 17.
#                OVERHEAD_SHAPES="one-record 16k connections-1 connections-100 connections-5000 unthrottled incident"
#                selects the loads of always-on (overhead: the first two), OVERHEAD_MINUTES=20 the time for each
#   make latency compares the latencies of every client with Kafka's own request log; on an otherwise idle machine
#   make faults  injects causes on a real broker and prints how often explanations name them (root; SEEDS=10 SEED=1
#                ONLY=journal-stall,quiet; target/faults keeps recordings and results, and finished runs are not repeated);
#                `make faults-short` injects a dozen causes once each, on three brokers: part of `make test`;
#                `make faults-tls` the same over TLS, with --see-tls and with --request-log: part of `make test-long`;
#                `make faults-guest` injects those that only a hypervisor can, in a virtual machine; `make accuracy` updates
#                README and the page on accuracy from the last complete run
#   make fs      the same broker and load on several file systems in turn, 15 minutes on an otherwise idle machine
#                (root; target/fs keeps recordings and results, and finished runs are not repeated; FRESH=1 discards them)
#   make tune    tries changes one by one to raise a broker's throughput; likewise, 20 minutes, target/tune;
#                `make tune-advice` follows the advice of `advise` and compares the result with that of a search: half an
#                hour, target/tune-advice
#   make fleet   mysterious disk reads on one broker of nine, with real brokers: fleet, files, logs and advise must name
#                the injected cause (root; 3 minutes, 4 GB of memory; results in target/fleet)
#   make supply-chain   licences, sources and bans of all packages (deny.toml); not in `make test`: the tool builds for minutes
#   make deb     the Debian package of the release binary, with man pages, completions and the book as Markdown (target/debian)
#   make stages  compares stages of produce requests under load with Kafka's own request log (root); likewise
#   make page    builds the page of `report`, compares it with the one in the repository and tests it in Chromium; `make web`
#                updates the one in the repository, `make picture` takes its picture for README, and `make fs-picture` that of
#                the page of `make fs`
#   make attack  a watch under forged packets, blocking files, silent and slow clients, 100,000 connections, ten minutes each
#                (root)
#   make vmtest  the probes under Debian's kernels in a virtual machine; KERNELS="5.10 6.18 7.2" for others
#   make fuzz TARGET=frame    runs one fuzz target until it finds something or is interrupted

CARGO ?= cargo
export CARGO_TERM_COLOR ?= auto

# Incremental compilation only helps the next build; CI builds once.
ifdef CI
export CARGO_INCREMENTAL ?= 0
endif

# As root the live tests run, and fail if they cannot; BROKERSCOPE_LIVE_TESTS=0 skips them.
ifeq ($(shell id -u),0)
BROKERSCOPE_LIVE_TESTS ?= 1
else
BROKERSCOPE_LIVE_TESTS ?= 0
endif

# If a JDK that starts its Flight Recorder cheaply is installed, the tests that need it must run.
ifneq ($(shell grep -lsE '^JAVA_VERSION="(2[5-9]|[3-9][0-9])' /usr/lib/jvm/*/release),)
export BROKERSCOPE_NEWER_JDK ?= 1
endif

# If a Go that builds the newest clients is installed, the tests with them must run.
ifneq ($(shell GOTOOLCHAIN=local go env GOVERSION 2>/dev/null | grep -E '^go1\.(2[6-9]|[3-9][0-9])'),)
export BROKERSCOPE_NEWER_GO ?= 1
endif

# Kernels for vmtest. `make test` uses only the first, with the tests that are most sensitive to kernel differences.
KERNELS ?= 6.1 6.12
VMTEST_SHORT := matrix always_on arrivals thread_times

.PHONY: accuracy agent attack docs manual deb quick test-long live-long demo faults faults-always-on faults-guest faults-short faults-tls fleet fs tune tune-advice test bench latency stages build vmtest vmtest-pause setup-bench setup-build setup-deb setup-demo setup-docs setup-faults setup-fs setup-test setup-vmtest fmt fmt-check lint doc unit golden offline page picture fs-picture sbom supply-chain web live sample fuzz fuzz-smoke fuzz-long fuzz-corpus clean

build: setup-build
	$(CARGO) build --release -p brokerscope

demo: setup-demo
	$(CARGO) build --release -p brokerscope -p lab
	target/release/brokerscope-lab demo --page target/demo.html

test: setup-test fmt-check lint doc unit docs page agent fuzz-smoke live

quick:
	@scripts/quick

# Slow live tests whose subject rarely changes: old brokers and clients, the newest clients, following advice, a fleet of
# brokers, the locks of two JDKs, TLS of old brokers and newer JDKs, dashboards, the package and the service, object stores, SQL
# engines. The rest of TEST_LONG is similar: the build without Linux, more inputs for each fuzz target, another kernel, a paused
# machine.
LIVE_LONG := always_on_latencies attacks client_properties dashboards deploy escalation fleet fleet_sql interruptions locks many_agents newest_clients old_versions power_cuts stores tls_versions tuning
TEST_LONG := offline fuzz-long live-long faults-tls vmtest vmtest-pause
test-long: setup-test
	@echo "test-long: $(TEST_LONG); live tests: $(LIVE_LONG); kernels: $(KERNELS)"
	$(MAKE) $(TEST_LONG)

live-long:
	tests/run $(LIVE_LONG)

# A watch under attack, ten minutes each. Uses the release build: an unoptimised one needs a third of the ceiling by itself.
attack: setup-test build
	BROKERSCOPE_BIN=$(CURDIR)/target/release/brokerscope BROKERSCOPE_ATTACK_SECONDS=600 tests/run attacks

setup-bench setup-build setup-deb setup-demo setup-docs setup-faults setup-fs setup-test setup-vmtest: setup-%:
	@setup/debian $*

# Fails if a target is missed.
bench: setup-bench
	$(CARGO) build --release -p brokerscope -p lab -p bench
	$(if $(filter page,$(or $(PARTS),page)),cd web && npm ci --silent)
	target/release/bench "$(CURDIR)/target/release/brokerscope" target/bench $(PARTS)

# Fails if less than 99 % of the requests are within the bounds.
latency: setup-test
	$(CARGO) build --release -p brokerscope -p lab -p e2e
	target/release/latency

# Fails if a target is missed. Needs an otherwise idle machine: other load slows requests for other reasons.
# Ends with the table of the page on accuracy.
SEEDS ?= 10
SEED ?= 1
ONLY ?=
faults: setup-faults
	$(CARGO) build --release -p brokerscope -p lab
	target/release/brokerscope-lab faults --seeds $(SEEDS) --seed $(SEED) --keep target/faults $(if $(ONLY),--only $(ONLY)); \
		reached=$$?; echo; cat target/faults/matrix.md; exit $$reached

# The same faults, recorded with --watch always-on, which cannot see all of them (docs/design/always-on.md).
faults-always-on: setup-faults
	$(CARGO) build --release -p brokerscope -p lab
	target/release/brokerscope-lab faults --watch always-on --seeds $(SEEDS) --seed $(SEED) --keep target/faults-always-on $(if $(ONLY),--only $(ONLY))

# Updates README and the page on accuracy from the last complete run of `make faults`.
accuracy:
	cp target/faults/accuracy.json docs/explanation/accuracy.json
	BLESS=1 $(OF_WORKSPACE) --quiet --lib faults::accuracy

# Faults that only a hypervisor can inject, in a guest without KVM: the broker takes a minute to start.
GUEST_FAULTS ?= steal
faults-guest: setup-faults setup-vmtest
	$(CARGO) build --release -p brokerscope -p lab
	VMTEST_SECONDS=3600 VMTEST_MIB=4096 vmtest/hypervisor $(lastword $(KERNELS)) \
		target/release/brokerscope-lab faults --seeds $(SEEDS) --seed $(SEED) --only $(GUEST_FAULTS)

# Resumes after an interruption. Ends with a comparison, target/fs/compare.md, and a page.
FRESH ?=
fs: setup-fs
	$(CARGO) build --release -p brokerscope -p lab
	target/release/brokerscope-lab fs --keep target/fs --page target/fs.html $(if $(FRESH),--fresh)

# Uses the binary that the tests have built; the machine need not be idle.
faults-short: setup-test
	$(OF_WORKSPACE) --test sample --test live --no-run
	tests/run --command target/debug/brokerscope-lab faults --short --seed $(SEED)

# The same with TLS clients, by the agent and by Kafka's request log.
faults-tls: setup-test
	$(OF_WORKSPACE) --test sample --test live --no-run
	tests/run --command target/debug/brokerscope-lab faults --short --tls --seed $(SEED)
	tests/run --command target/debug/brokerscope-lab faults --short --tls --request-log --seed $(SEED)

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

# Fails if less than 98 % are within a millisecond, or the median is off by more than 0.1 ms.
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

# Always selects tests from the whole workspace, never from one package: for a package alone cargo enables fewer features of
# the dependencies, and rebuilds those and everything that depends on them.
OF_WORKSPACE = $(CARGO) test --workspace

# For tools that run for seconds.
UNOPTIMISED := CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_DEV_DEBUG=0

# The book's builder, built once: a debug build compiles in half the time of an optimised one and builds the book in a second.
MDBOOK_VERSION := 0.4.52
MDBOOK := target/tools/mdbook-$(MDBOOK_VERSION)/bin/mdbook
$(MDBOOK):
	@echo "docs: builds mdbook $(MDBOOK_VERSION) once, from crates.io: about a minute"
	$(UNOPTIMISED) $(CARGO) install mdbook --version =$(MDBOOK_VERSION) --locked --quiet \
		--debug --no-default-features --features search --root target/tools/mdbook-$(MDBOOK_VERSION)

docs: setup-docs $(MDBOOK) manual
	rm -rf target/book
	$(MDBOOK) build docs
	cd target/book/FontAwesome/fonts && rm *.eot *.svg *.ttf *.woff # for browsers older than ten years
	cd target/book/fonts && rm open-sans-*-600*.woff2 open-sans-*-800*.woff2 # weights that no text has
	scripts/docs
	$(OF_WORKSPACE) --quiet --test sample --test documents

manual:
	$(CARGO) build --quiet --workspace --example manual
	target/debug/examples/manual target/manual

# The package's builder, built once: the last version that Rust 1.85 compiles. Without its own xz, which needs more headers.
CARGO_DEB_VERSION := 3.8.0
CARGO_DEB := target/tools/cargo-deb-$(CARGO_DEB_VERSION)/bin/cargo-deb
$(CARGO_DEB):
	@echo "deb: builds cargo-deb $(CARGO_DEB_VERSION) once, from crates.io"
	$(CARGO) install cargo-deb --version =$(CARGO_DEB_VERSION) --locked --quiet --no-default-features \
		--root target/tools/cargo-deb-$(CARGO_DEB_VERSION)

# The builder of the SBOM (the program's dependencies, as CycloneDX), built once.
CARGO_SBOM_VERSION := 0.10.0
CARGO_SBOM := target/tools/cargo-sbom-$(CARGO_SBOM_VERSION)/bin/cargo-sbom
$(CARGO_SBOM):
	@echo "sbom: builds cargo-sbom $(CARGO_SBOM_VERSION) once, from crates.io"
	$(UNOPTIMISED) $(CARGO) install cargo-sbom --version =$(CARGO_SBOM_VERSION) --locked --quiet --debug \
		--root target/tools/cargo-sbom-$(CARGO_SBOM_VERSION)

sbom: $(CARGO_SBOM)
	mkdir -p target/sbom
	$(CARGO_SBOM) sbom --cargo-package brokerscope --output-format cyclone_dx_json_1_6 >target/sbom/brokerscope.cdx.json

# Not run here: `cargo-deny check advisories`, which needs RustSec's database from GitHub.
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

# Tests that need no privilege. Live tests report that they did not run.
unit:
	BROKERSCOPE_LIVE_TESTS=0 $(OF_WORKSPACE)

# The front end of `report`: one file that the binary embeds. It is in the repository so that cargo needs no Node.
web: setup-test
	cd web && npm ci --silent && npm run --silent check && npm run --silent build

# Checks that the front end in the repository matches its sources, and that the sample's page works in a browser.
page: setup-test
	cd web && npm ci --silent && npm run --silent check && npm run --silent build -- --outDir ../target/page --emptyOutDir
	cmp target/page/page.html web/dist/page.html || { echo "web/dist/page.html is not what web/ builds: make web"; exit 1; }
	$(OF_WORKSPACE) --test sample --no-run
	target/debug/brokerscope report samples/journal-stall -o target/page/sample.html
	target/debug/brokerscope compare first=samples/journal-stall@-10s second=samples/journal-stall@10s- --slo 65ms -o target/page/compare.html >/dev/null
	cd web && PAGE="$(CURDIR)/target/page/sample.html" COMPARE="$(CURDIR)/target/page/compare.html" npm test --silent

# Checks that the agent's jar in the repository matches its sources.
agent: setup-test
	agent/build --check

# The pictures in README: of the sample, and of the result of `make fs`.
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

# Every fuzz target but analyzer, recording and store, one per processor at a time, always with the same inputs, so that a
# failure can be reproduced: the first quarter of the inputs of `fuzz-long`. Ten minutes of each target: `make fuzz-long
# FUZZ_SECONDS=600 FUZZ_PERCENT=10000`. FUZZ_PERCENT sets the number of inputs, FUZZ_SECONDS (90) the longest time for a target;
# FUZZ_SEED=2 tries other inputs.
fuzz-smoke:
	FUZZ_PERCENT=25 fuzz/run smoke

fuzz-long:
	fuzz/run smoke
	fuzz/run long recording -max_total_time=$(or $(FUZZ_SECONDS),90)
	fuzz/run long store -max_total_time=$(or $(FUZZ_SECONDS),90)

fuzz:
	fuzz/run long $(TARGET)

# For use after a format has changed, or after a long run has reached new code.
fuzz-corpus:
	fuzz/run corpus

# Builds the test binaries once; repeats a failed test only if the machine was at fault (tests/run).
live:
ifeq ($(BROKERSCOPE_LIVE_TESTS),1)
	tests/run $(filter-out $(LIVE_LONG),$(shell tests/run --list))
	$(MAKE) faults-short
	$(MAKE) vmtest KERNELS=$(firstword $(KERNELS)) VMTEST_TESTS="$(VMTEST_SHORT)"
else
	@echo "LEFT OUT: the live tests (BPF, packet capture, a real broker, real clients) need root:"
	@echo "LEFT OUT: run 'make test' as root, or 'make live BROKERSCOPE_LIVE_TESTS=1'"
endif

# Boots each kernel once. Needs no root, only the right to run apt-get download.
vmtest: setup-vmtest
	tests/run --command vmtest/matrix $(KERNELS)

# A guest that is paused for a while.
vmtest-pause: setup-vmtest
	vmtest/pause $(firstword $(KERNELS))

clean:
	$(CARGO) clean
