# `make run` shows what there is, `make test` is everything that CI checks. `make help` lists the single steps.
# SPDX-License-Identifier: Apache-2.0 OR MIT
SHELL := /bin/bash
.DEFAULT_GOAL := help

# rustup puts cargo there; a fresh shell may not know it yet. First, for `make targets` brings a second compiler, the distribution's.
export PATH := $(HOME)/.cargo/bin:$(PATH)
# The seed of the property tests: the commit, so that a failure repeats. Set it to repeat another commit's.
BBRLAB_SEED ?= $(shell git rev-parse HEAD 2>/dev/null || echo 1)
export BBRLAB_SEED
# Seconds for each fuzz target.
FUZZ_SECONDS ?= 30

# Runs of each scenario in `make agree`.
AGREE_REPEAT ?= 3

export BBRLAB := $(or $(CARGO_TARGET_DIR),target)/release/bbrlab
# Cheap steps first. Every one is a target that runs alone.
STEPS := format lint docs tests package no-std targets bpf oracle host uml-tests agree catalogue golden conform repeat commands report instructions fuzz
# `bbrlab host` is built where libelf's headers are, `bbrlab record` where clang is too; `make oracle` installs both.
BPF := $(shell test -e /usr/include/libelf.h && { command -v clang clang-{22..14} >/dev/null && echo --features bpf || echo --features host; })

# `--on quic` is built where cmake and a C compiler are: its TLS is compiled from C.
QUIC := $(shell command -v cmake >/dev/null && { command -v cc clang >/dev/null && echo --features quic; })
FEATURES := $(BPF) $(QUIC)
# QUIC, Parquet and `tune` need heavy libraries: `make run` leaves them out unless they have been built here.
RUN_FEATURES := $(if $(wildcard $(dir $(BBRLAB))deps/libparquet-*),$(FEATURES),--no-default-features)

# All tests are of one build, whichever of them a step runs.
TEST := cargo test --locked --workspace $(FEATURES)

# The catalogue's page, values and text; steps that need them share them as long as the command is older.
REPRODUCE = mkdir -p out; $(BBRLAB) reproduce --report out/report.html --json out/catalogue.json > out/catalogue.txt
REPRODUCED = [ out/catalogue.txt -nt $(BBRLAB) ] || { $(REPRODUCE); } || [ $$? -eq 1 ]

# What one set of tests leaves is tried by the next: core's own, core beside a whole path, the real kernel's recorded decisions.
MUTANTS := CARGO_PROFILE_TEST_OPT_LEVEL=0 nice cargo mutants --iterate -p bbrlab-core -j1 -o out \
    $(foreach file,bbr1/*.rs bbr3/*.rs cubic.rs hystart.rs minmax.rs sampler.rs shared.rs wide.rs,-f 'crates/core/src/$(file)')

.PHONY: quic host-long help setup run test build clean uml picture mutants spec-mutants golden-update $(STEPS)

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 24

setup: ## installs what all steps need, or names what is missing
	@tools/setup.sh run $(STEPS)

run: ## builds the command, runs every published claim, writes out/report.html
	@tools/setup.sh run
	@echo "== 1/2: building $(BBRLAB), some minutes the first time"
	cargo build --locked --release -p bbrlab $(RUN_FEATURES)
	@echo "== 2/2: running every published claim, about a minute"
	@mkdir -p out
	@status=0; $(BBRLAB) reproduce --report out/report.html || status=$$?; \
	if [ $$status -le 1 ]; then \
	    echo "report: $(CURDIR)/out/report.html"; \
	    echo "next: $(BBRLAB) run --flow bbr1 --flow cubic, or docs/README.md; tune, sweep, QUIC, BPF: make build; on a real Linux kernel: make uml, once"; \
	fi; exit $$status

test: ## every check of CI, with a summary
	@tools/steps.sh $(STEPS)

build: ## the command, at target/release/bbrlab
	@test -n "$(BPF)" || echo "without bbrlab host, ab: no headers of libelf; tools/setup.sh host installs them"
	@test -n "$(QUIC)" || echo "without --on quic: no cmake or no C compiler; tools/setup.sh quic installs them"
	cargo build --locked --release -p bbrlab $(FEATURES)

format: ## the sources are formatted
	cargo fmt --all --check

lint: ## clippy without a warning, on every target, the fuzzers' too, and on what make run builds
	cargo clippy --locked --workspace --all-targets $(FEATURES) -- -D warnings
	cargo clippy --locked -p bbrlab --no-default-features -- -D warnings
	cargo clippy --locked --manifest-path fuzz/Cargo.toml --target-dir $(or $(CARGO_TARGET_DIR),target) -- -D warnings

docs: ## links lead somewhere, files keep their length, words are spelt right
	python3 tools/check_docs.py
	tools/spelling.sh

tests: ## unit, doc, property and command tests
	$(TEST) --no-fail-fast

package: ## core as crates.io gets it passes its tests outside the workspace
	tools/package.sh

no-std: ## core needs no std, no allocator, no float; shown by the symbols that are left
	tools/nostd.sh

targets: ## core for a kernel's BPF and for the browser, and sim for the browser: no panic, no 128-bit arithmetic, no call out, 512 bytes of stack
	python3 tools/targets.py
	cargo build --quiet --locked --release -p bbrlab-sim --target wasm32-unknown-unknown

oracle: build ## this kernel's own BBR and CUBIC, recorded afresh and replayed; needs root and BPF
	tools/oracle.sh short
	$(TEST) --test record -- --ignored

host: build ## our algorithms in this kernel: equal to native code, loaded, killed at each step, taken back, under a web server; needs root and BPF
	$(TEST) --test differential --test host --test ab -- --include-ignored --test-threads=1
	tools/server.sh

quic: ## our algorithms in s2n-quic and noq: adapters under random days, scenarios between real endpoints in virtual time
	cargo test --locked -p bbrlab-quic --features world

host-long: build ## an A/B test over two emulated links, 10 million calls an algorithm beside native code, 1,000 loads and unloads under traffic, ten minutes of everything at once (hours)
	tools/ab.sh
	BBRLAB_LOADS=1000 nice cargo test --locked -p bbrlab-host --features load --test host loads_and -- --ignored --nocapture
	tools/oracle.sh soak 600s
	BBRLAB_CALLS=10000000 nice cargo test --locked --release -p bbrlab-host --features load --test differential -- --ignored --nocapture

bpf: ## the BPF objects anew: the committed ones byte by byte, or, of another compiler, held to native code in their place
	tools/bpf.sh

uml: ## a real Linux kernel for --on uml, about four minutes; built once and kept outside the repo
	@tools/setup.sh uml
	tools/uml/build.sh

uml-tests: build ## runs on the real Linux kernel in virtual time
	tools/uml/build.sh
	$(TEST) --test uml -- --ignored

agree: build ## the simulator beside the real kernel in virtual time, on the whole matrix
	@mkdir -p out
	tools/uml/build.sh
	$(BBRLAB) agree --repeat $(AGREE_REPEAT) --json out/agree.json --report out/agree.html || [ $$? -eq 1 ]
	python3 tools/agree_gate.py out/agree.json

catalogue: build ## every published claim, as `make run`; no expectation fails
	@$(REPRODUCE); status=$$?; cat out/catalogue.txt; exit $$status

golden: build ## tables of figures are what tests/golden holds, on this machine and as aarch64
	tools/golden.sh sim
	@$(REPRODUCED)
	tools/golden.sh claims

golden-update: build ## writes tests/golden anew; look at the difference before you keep it
	@mkdir -p out
	tools/golden.sh sim --update
	$(BBRLAB) reproduce --json out/catalogue.json >/dev/null || [ $$? -eq 1 ]
	tools/golden.sh claims --update

conform: build ## the draft's 22 example test cases over the whole grid, by four algorithms
	@mkdir -p out
	$(BBRLAB) conform bbr3 bbr3-linux bbr2 bbr1 --report out/conform.html --junit out/conform.xml

repeat: build ## the catalogue on one thread and on many gives the same bytes
	@mkdir -p out/repeat; rm -f out/repeat/*
	@$(REPRODUCED)
	@RAYON_NUM_THREADS=$$([ "$$(nproc)" -gt 1 ] && echo 1 || echo 3) $(BBRLAB) reproduce --report out/repeat/report.html \
	    --json out/repeat/catalogue.json > out/repeat/catalogue.txt || [ $$? -eq 1 ]
	@for file in report.html catalogue.json catalogue.txt; do cmp out/$$file out/repeat/$$file || exit 1; done

commands: build ## the commands in README and docs print what stands below them, and give the README's picture
	@mkdir -p out
	python3 tools/check_commands.py
	python3 tools/picture.py --check

picture: build ## draws the README's picture anew
	python3 tools/picture.py

report: build ## the report in a real browser: a sample, the catalogue, one run
	@mkdir -p out/report-test
	cargo run --quiet --locked --release -p bbrlab-lab --features parquet,tune --example report_sample > out/report-test/sample.html
	python3 tests/report/browser_test.py out/report-test/sample.html --shots out/report-test/sample
	@$(REPRODUCED)
	python3 tests/report/browser_test.py out/report.html --shots out/report-test/catalogue
	$(BBRLAB) run --quiet examples/call.toml --report out/report-test/run.html
	python3 tests/report/browser_test.py out/report-test/run.html --shots out/report-test/run

instructions: ## what a simulation costs in instructions, against its limits (valgrind; no wall clock)
	python3 tools/bench.py --gate

fuzz: ## each fuzz target for FUZZ_SECONDS (30)
	fuzz/run.sh $(FUZZ_SECONDS)

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
	rm -rf target out fuzz/target fuzz/corpus fuzz/artifacts
