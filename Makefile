# `make run` shows what there is, `make test` checks all that needs no root, `make ci` everything. `make help` lists the single steps.
# SPDX-License-Identifier: Apache-2.0 OR MIT
SHELL := /bin/bash
.DEFAULT_GOAL := help

# rustup puts cargo there; a fresh shell may not know it yet. First, for `make targets` brings a second compiler, the distribution's.
export PATH := $(HOME)/.cargo/bin:$(PATH)
# The seed of the property tests: the commit, so that a failure repeats. Set it to repeat another commit's.
BBRLAB_SEED ?= $(shell git rev-parse HEAD 2>/dev/null || echo 1)
export BBRLAB_SEED
# Seconds for each fuzz target.
FUZZ_SECONDS ?= 20

# Runs of each scenario in `make validate`, and the share of the scenarios: every N-th.
VALIDATE_REPEAT ?= 3
VALIDATE_EVERY ?= 1

# The command as the tests have it: with every assertion on, its simulations optimised.
CHECKED := $(or $(CARGO_TARGET_DIR),target)/debug/bbrlab
RELEASE := $(or $(CARGO_TARGET_DIR),target)/release/bbrlab
export BBRLAB := $(CHECKED)
# What needs neither root nor a kernel of its own: `make test`. Cheap steps first; every one is a target that runs alone.
TEST_STEPS := format docs lint touches tests catalogue golden conform commands
# The rest of `make ci`: what needs root, BPF, a kernel, a browser or another compiler.
REST_STEPS := features package no-std targets bpf oracle host kernels uml-tests validate repeat aarch64 report web-test python instructions fuzz
# `bbrlab host` is built where libelf's headers are, `bbrlab record` where clang is too; `make oracle` installs both.
BPF := $(shell test -e /usr/include/libelf.h && { command -v clang clang-{22..14} >/dev/null && echo --features bpf || echo --features host; })

# `--on quic` is built where cmake and a C compiler are: its TLS is compiled from C.
QUIC := $(shell command -v cmake >/dev/null && { command -v cc clang >/dev/null && echo --features quic; })
# The linear algebra of `tune` takes as long to build as all other libraries together: not in `make test`.
FEATURES := --features tune $(BPF) $(QUIC)
# QUIC, Parquet and `tune` need heavy libraries: `make run` leaves them out unless they have been built here.
RUN_FEATURES := $(if $(wildcard $(dir $(RELEASE))deps/libparquet-*),$(FEATURES),--no-default-features)

# One selection of packages for each set of features, so that no two steps build anything twice.
# The Python extension needs Python's headers: `make python` builds and tests it.
WORKSPACE := --workspace --exclude bbrlab-py
# Features of the steps that need none: none here, and all in CI, where most steps need them anyway. `make features` tests the other set.
SET := $(if $(CI),$(FEATURES))
OTHERS := $(if $(CI),,$(FEATURES))
TEST := cargo test --locked $(WORKSPACE) $(SET)
TEST_OTHERS := cargo test --locked $(WORKSPACE) $(OTHERS)
TEST_FULL := cargo test --locked $(WORKSPACE) $(FEATURES)
# Crates whose unit tests are the same with these features.
SAME := core sim lab replay report stats study web
# Integration tests that the features change, but those of REST_STEPS' own.
CHANGED_TESTS := ab bad_input command emulate record serve watch
# Those that need every feature. `backend`, of QUIC, takes as long as all others, so they begin first.
FULL_TESTS := backend tune
# All others.
PLAIN_TESTS := $(filter-out $(FULL_TESTS) differential host,$(sort $(basename $(notdir $(wildcard crates/*/tests/*.rs))) \
    $(notdir $(patsubst %/main.rs,%,$(wildcard crates/*/tests/*/main.rs)))))

# The catalogue's page, values and text; steps that need them share them as long as the command is older.
REPRODUCE = mkdir -p out; $(CHECKED) reproduce --report out/report.html --json out/catalogue.json > out/catalogue.txt
REPRODUCED = [ out/catalogue.txt -nt $(CHECKED) ] || { $(REPRODUCE); } || [ $$? -eq 1 ]

# What one set of tests leaves is tried by the next: core's own, core beside a whole path, the real kernel's recorded decisions.
MUTANTS := CARGO_PROFILE_TEST_OPT_LEVEL=0 nice cargo mutants --iterate -p bbrlab-core -j1 -o out \
    $(foreach file,bbr1/*.rs bbr3/*.rs cubic.rs hystart.rs minmax.rs sampler.rs shared.rs wide.rs,-f 'crates/core/src/$(file)')

.PHONY: help setup run test ci ci-rest build checked clean uml uml-newer lint-fuzz validate-l4s picture mutants spec-mutants golden-update wheel quic peers tests-unit tests-integration tests-doc features-changed features-alone dash lag host-long kernels-long kernels-aarch64 chance fresh workflows grafana web web-long site semver release release-check \
    $(TEST_STEPS) $(REST_STEPS)

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /  make \1\t/p' Makefile | expand -t 24

setup: ## installs what all steps need, or names what is missing
	@tools/setup.sh run $(TEST_STEPS) $(REST_STEPS)

run: ## builds the command, runs every published claim, writes out/report.html
	@tools/setup.sh run
	@echo "== 1/2: building $(RELEASE), some minutes the first time"
	cargo build --locked --release -p bbrlab $(RUN_FEATURES)
	@echo "== 2/2: running every published claim, about a minute"
	@mkdir -p out
	@status=0; $(RELEASE) reproduce --report out/report.html || status=$$?; \
	if [ $$status -le 1 ]; then \
	    echo "report: $(CURDIR)/out/report.html"; \
	    echo "next: $(RELEASE) run --flow bbr1 --flow cubic, or docs/README.md"; \
	    echo "For tune, sweep, QUIC and BPF: make build. For a real Linux kernel: make uml, once."; \
	fi; exit $$status

test: ## every check that needs neither root nor a kernel of its own, with a summary
	@tools/steps.sh $(TEST_STEPS)

ci: ## make test, then everything else that CI checks; root for some steps
	@status=0; $(MAKE) --no-print-directory test || status=1; $(MAKE) --no-print-directory ci-rest || status=1; exit $$status

ci-rest: ## what make ci runs after make test
	@tools/steps.sh $(REST_STEPS)

# The page of `bbrlab play` is in the command where `make web` has built it.
build: export BBRLAB_WEB = $(shell test -e out/web/index.html.gz && echo $(CURDIR)/out/web)
build: ## the command, at target/release/bbrlab
	@test -n "$(BPF)" || echo "without bbrlab host, ab: no headers of libelf; tools/setup.sh host installs them"
	@test -n "$(QUIC)" || echo "without --on quic: no cmake or no C compiler; tools/setup.sh quic installs them"
	cargo build --locked --release -p bbrlab $(FEATURES)

# The command as the tests have it. `cargo build --workspace` and `cargo test --workspace` share what they build.
checked:
	@cargo build --quiet --locked $(WORKSPACE) --bin bbrlab $(SET)

# The same with every feature.
checked-full:
	@cargo build --quiet --locked $(WORKSPACE) --bin bbrlab $(FEATURES)

format: ## the sources are formatted
	cargo fmt --all --check

docs: ## links lead somewhere, files keep their length, words are spelt right
	python3 tools/check_docs.py
	tools/spelling.sh

workflows: ## GitHub's workflows, by actionlint
	@tools/setup.sh workflows
	tools/workflows.sh

lint: ## clippy without a warning, on every target
	cargo clippy --quiet --locked $(WORKSPACE) --all-targets $(SET) -- -D warnings

touches: ## what an algorithm, a key and a measure take: added to a copy, which builds; the files touched are counted
	python3 tools/touches.py

# Two at a time: tests of the command mostly wait.
BESIDE = @$(MAKE) --no-print-directory -j2 -Otarget

tests: ## unit, doc, property and command tests
	$(TEST) --quiet --no-run --lib --bins --tests
	$(BESIDE) $(if $(CI),features-alone) tests-unit tests-integration tests-doc

tests-unit:
	$(TEST) --quiet --no-fail-fast --lib --bins

tests-integration:
	$(TEST) --quiet --no-fail-fast $(PLAIN_TESTS:%=--test %)

tests-doc:
	$(TEST) --quiet --doc

features: ## the same for QUIC, BPF, tune and what make run builds: clippy on each set of features; tests of what the sets add
	$(if $(CI),,cargo clippy --quiet --locked $(WORKSPACE) --all-targets $(OTHERS) -- -D warnings)
	cargo clippy --quiet --locked -p bbrlab --no-default-features -- -D warnings
	$(TEST_OTHERS) --quiet --no-run --lib --bins $(SAME:%=--exclude bbrlab-%)
	$(TEST_OTHERS) --quiet --no-run $(CHANGED_TESTS:%=--test %) $(if $(CI),,$(FULL_TESTS:%=--test %))
	$(BESIDE) $(if $(CI),,features-alone) features-changed

features-changed:
	$(TEST_OTHERS) --quiet --no-fail-fast --lib --bins $(SAME:%=--exclude bbrlab-%)
	$(TEST_OTHERS) --quiet --no-fail-fast $(CHANGED_TESTS:%=--test %)

features-alone:
	$(TEST_FULL) --quiet --no-fail-fast $(FULL_TESTS:%=--test %)

package: ## core as crates.io gets it passes its tests outside the workspace
	tools/package.sh

no-std: ## core needs no std, no allocator, no float; shown by the symbols that are left
	tools/nostd.sh

targets: ## core for a kernel's BPF and for the browser: no panic, no 128-bit arithmetic, no call out, 512 bytes of stack
	python3 tools/targets.py

oracle: checked-full ## this kernel's own BBR and CUBIC, recorded afresh and replayed; needs root and BPF
	tools/oracle.sh short
	$(TEST_FULL) --test record -- --ignored

host: checked-full ## our algorithms in this kernel: equal to native code, loaded, killed at each step, taken back, under a web server; needs root and BPF
	$(TEST_FULL) --test differential --test host --test ab -- --include-ignored --test-threads=1
	tools/server.sh
	python3 tools/runbook.py

# Kernels of `make kernels`: none means those of tools/kernels.sh.
SERIES ?=
# Test programs to run in another kernel.
TEST_PROGRAMS = $$($(TEST_FULL) --no-run --test differential --test host 2>&1 | sed -n 's/.*(\(.*\/NAME-[^)]*\))$$/\1/p')
KERNELS = DIFFERENTIAL=$(subst NAME,differential,$(TEST_PROGRAMS)) HOST_TESTS=$(subst NAME,host,$(TEST_PROGRAMS)) tools/kernels.sh

kernels: checked-full ## Debian's own kernels, 5.10 to the newest, under QEMU: every algorithm loaded, compared and unloaded, an A/B test
	$(KERNELS) $(SERIES)

kernels-long: checked-full ## the same on every series that Debian serves, with commands killed at each step (an hour)
	@tools/setup.sh kernels
	$(KERNELS) --long

kernels-aarch64: ## every algorithm in Debian's aarch64 kernels under QEMU, with a loader built for aarch64 (minutes)
	@tools/setup.sh kernels-aarch64
	tools/kernels/aarch64.sh

quic: ## our algorithms in s2n-quic, noq and quinn, the published and the patched: adapters under random days, real endpoints in virtual time
	cargo test --locked -p bbrlab-quic --features backend
	tools/quinn.sh

peers: checked-full ## HTTP/3 with real peers over loopback: Chromium, curl, aioquic and caddy, as clients of bbrlab serve and servers of bbrlab get (a minute)
	@tools/setup.sh peers || [ "$$CI" != true ]
	python3 tools/peers.py

dash: checked-full ## video on demand and live in Chromium with dash.js, from bbrlab serve behind bbrlab emulate, beside the simulator's: stalls and bitrate agree in sign (40 minutes)
	@tools/setup.sh dash
	python3 tools/dash.py; demand=$$?; python3 tools/dash.py --live && exit $$demand

lag: checked-full ## latency under load by irtt and iperf3 behind bbrlab emulate, beside the simulator's probe (6 minutes)
	@tools/setup.sh lag
	python3 tools/lag.py

host-long: build ## an A/B test over two emulated links, 10 million calls an algorithm beside native code, 1,000 loads and unloads under traffic, ten minutes of everything at once (hours)
	BBRLAB=$(RELEASE) tools/ab.sh
	BBRLAB_LOADS=1000 nice cargo test --locked -p bbrlab-host --features ab,load --test host loads_and -- --ignored --nocapture
	BBRLAB=$(RELEASE) tools/oracle.sh soak 600s
	BBRLAB_CALLS=10000000 nice cargo test --locked --release -p bbrlab-host --features load --test differential -- --ignored --nocapture

bpf: ## the BPF objects anew: the committed ones byte by byte, or, of another compiler, held to native code in their place
	tools/bpf.sh

uml: ## a real Linux kernel for --on uml, about four minutes; built once and kept outside the repo
	@tools/setup.sh uml
	tools/uml/build.sh

uml-newer: ## beside it, the newest Linux of Debian's backports, for dualpi2 and accurate ECN
	@tools/setup.sh uml-newer
	tools/uml/build.sh --newer

uml-tests: checked-full ## runs on the real Linux kernel in virtual time
	tools/uml/build.sh
	$(TEST_FULL) --test uml -- --ignored

validate: checked-full ## the simulator beside the real kernel in virtual time, on the whole matrix
	@mkdir -p out
	tools/uml/build.sh
	$(CHECKED) validate --repeat $(VALIDATE_REPEAT) --every $(VALIDATE_EVERY) --json out/validate.json --report out/validate.html || [ $$? -eq 1 ]
	python3 tools/validate_gate.py out/validate.json

validate-l4s: checked-full ## what needs a newer kernel: dualpi2 and accurate ECN beside Linux's own
	@mkdir -p out
	tools/uml/build.sh --newer
	$(CHECKED) validate --only l4s: --repeat $(VALIDATE_REPEAT) --json out/validate-l4s.json --report out/validate-l4s.html

catalogue: checked ## every published claim, as `make run`; no expectation fails
	@$(REPRODUCE); status=$$?; cat out/catalogue.txt; exit $$status

golden: checked ## tables of figures are what tests/golden holds
	tools/golden.sh sim
	@$(REPRODUCED)
	tools/golden.sh claims

aarch64: ## the simulator's table of figures on aarch64, under qemu-user: the same bytes
	tools/golden.sh aarch64

golden-update: checked ## writes tests/golden anew; look at the difference before you keep it
	@mkdir -p out
	tools/golden.sh sim --update
	@$(REPRODUCED)
	tools/golden.sh claims --update
	python3 tools/check_figures.py out/catalogue.json --update

conform: checked ## the draft's 22 example test cases over the whole grid, by four algorithms
	@mkdir -p out
	$(CHECKED) conform bbr3 bbr3-linux bbr2 bbr1 --report out/conform.html --junit out/conform.xml

repeat: checked ## every claim again, without assertions and on another number of threads, gives the same bytes
	cargo build --quiet --locked --release -p bbrlab $(RUN_FEATURES)
	@mkdir -p out/repeat; rm -f out/repeat/*
	@$(REPRODUCED)
	@RAYON_NUM_THREADS=$$(($$(nproc) + 1)) $(RELEASE) reproduce --report out/repeat/report.html --json out/repeat/catalogue.json \
	    > out/repeat/catalogue.txt || [ $$? -eq 1 ]
	@for file in report.html catalogue.json catalogue.txt; do cmp out/repeat/$$file out/$$file || exit 1; done

commands: checked ## README and docs show what the commands print, today's figures and today's picture
	@$(REPRODUCED)
	BBRLAB_CATALOGUE=out/catalogue.txt python3 tools/check_commands.py
	python3 tools/check_figures.py out/catalogue.json
	python3 tools/picture.py --check

picture: checked ## draws the README's picture anew
	python3 tools/picture.py

report: checked-full ## the report in a real browser: a sample, the catalogue, one run
	@mkdir -p out/report-test
	cargo build --quiet --locked $(WORKSPACE) $(FEATURES) --example report_sample
	$(dir $(CHECKED))examples/report_sample > out/report-test/sample.html
	python3 tests/report/browser_test.py out/report-test/sample.html --shots out/report-test/sample
	@$(REPRODUCED)
	python3 tests/report/browser_test.py out/report.html --shots out/report-test/catalogue
	$(CHECKED) run --quiet examples/call.toml --report out/report-test/run.html
	python3 tests/report/browser_test.py out/report-test/run.html --shots out/report-test/run

web: ## the playground of `bbrlab play`, in out/web: the simulator as WebAssembly and the page around it (node)
	@tools/setup.sh web
	tools/web.sh

web-test: checked ## the playground: its results beside the command's, byte by byte, and the page in a real browser
	tools/web.sh test

web-long: checked ## the same with the limits of time that a quiet machine meets, and ten minutes of play: a quarter of an hour
	@tools/setup.sh web-test
	tools/web.sh test --strict

site: run ## the site in out/site: landing page, playground, documentation, claims, references and notebooks, with its links checked
	@tools/setup.sh web python
	tools/web.sh site

python: checked ## the Python package in an environment of its own: clippy, ruff, mypy, pytest beside the command, the notebooks
	cargo clippy --quiet --locked -p bbrlab-py -- -D warnings
	tools/python.sh test

wheel: ## the Python package for any Linux distribution since 2018, in out/wheels
	@tools/setup.sh python
	tools/python.sh wheel

release: ## what is released, in out/release: crates, static archives, .deb, OCI image, wheels, SBOM, sums; each tried in a fresh place (an hour; root)
	@tools/setup.sh release
	tools/release.sh

semver: ## core's public interface beside the packages kept in tests/compat (compiles cargo-semver-checks once, five minutes)
	@tools/setup.sh semver
	tools/release.sh semver

release-check: release workflows grafana ## the same, then equal bytes from another folder, licences, unused dependencies, words, core's interface, other systems, the oldest compiler; what remains to be done by hand
	tools/release.sh again check

instructions: ## what a simulation costs in instructions, against its limits (valgrind; no wall clock)
	python3 tools/bench.py --gate

lint-fuzz: ## clippy on the fuzzers, which have dependencies of their own
	cargo clippy --quiet --locked --manifest-path fuzz/Cargo.toml --target-dir $(or $(CARGO_TARGET_DIR),target) -- -D warnings

fuzz: ## each fuzz target for FUZZ_SECONDS (20)
	fuzz/run.sh $(FUZZ_SECONDS)

grafana: checked ## the dashboard's form, and its queries against a Prometheus that scrapes the exporter; the alerts' rules
	@tools/setup.sh grafana
	python3 tools/grafana.py
	PATH=$$PATH:out/tools promtool check rules contrib/alerts.yml

chance: ## every step of make ci 20 times, half of them beside two busy processes: no failure by chance (many hours)
	tools/chance.sh $(filter-out bpf kernels,$(TEST_STEPS) $(REST_STEPS))

fresh: ## both commands of the README in minimal Debian 12 and 13, in chroots; needs root (an hour)
	@tools/setup.sh fresh
	tools/fresh.sh bookworm trixie

mutants: ## every bug of a peer, and every small change of core's state machines, has a test that sees it (hours; cargo-mutants)
	python3 tools/traps.py
	rm -rf out/mutants.out
	for tests in '--timeout=20 --cargo-test-arg=--lib' '--timeout=20 --cargo-test-arg=--tests' \
	    '--timeout=60 --cargo-test-arg=--package=bbrlab-replay --cargo-test-arg=--test=replay'; do \
	    $(MUTANTS) $$tests; status=$$?; [ $$status -le 3 ] || exit $$status; \
	done; [ $$status -ne 2 ]

spec-mutants: ## each rule of the draft, broken, fails the test that docs/spec-map.tsv names (minutes)
	nice python3 tools/spec_mutants.py

clean: ## removes what was built and written
	rm -rf target out web/node_modules fuzz/target fuzz/corpus fuzz/artifacts
