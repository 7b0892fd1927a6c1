# What people type. The work is done by cargo and by `cargo xtask`; this file only puts set-up first.

.DEFAULT_GOAL := build
.PHONY: help setup build install uninstall dist demo demo-fleet test test-long test-kernels check bench clean

# Where `make install` puts things. Packagers set DESTDIR, and BUILT where they built elsewhere.
PREFIX ?= /usr/local
DESTDIR ?=
BUILT ?= target/release

to := $(DESTDIR)$(PREFIX)
man := $(to)/share/man/man1
doc := $(to)/share/doc/haltwise
unit := $(to)/lib/systemd/system
units := haltwise-record.service haltwise-metrics.service haltwise-pilot.service haltwise-costs.service haltwise-costs.timer
# For VMMs: docs/ceilings.md.
lib := $(to)/lib/haltwise
preloaded := haltwise-exec libhaltwise_preload.so
# As the program names its completions, and where each shell looks.
completions := \
	haltwise.bash:share/bash-completion/completions/haltwise \
	haltwise.fish:share/fish/vendor_completions.d/haltwise.fish \
	_haltwise:share/zsh/site-functions/_haltwise

# `cargo xtask` builds xtask alone, with other features of what it shares with the programs: all of that twice.
build-all := cargo build --workspace --lib --bins
xtask := $${CARGO_TARGET_DIR:-target}/debug/xtask

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install the packages that are missing, for tests too, or say which
	@tools/setup

setup-%:
	@tools/setup $*

build: setup-build ## Build haltwise, the lab and the experiments (optimised: target/release)
	cargo build --release -p haltwise -p haltwise-lab -p haltwise-experiments -p haltwise-exec -p haltwise-preload

# Builds nothing: who installs is root, who builds need not be.
install: ## Install haltwise below PREFIX (/usr/local), with manual pages and completions
	@test -x $(BUILT)/haltwise || { echo "$(BUILT)/haltwise is not there: run make build first"; exit 1; }
	install -d $(to)/bin $(man) $(doc)
	strip -o $(to)/bin/haltwise $(BUILT)/haltwise
	chmod 755 $(to)/bin/haltwise
	@for it in $(preloaded); do \
		! test -e $(BUILT)/$$it || { install -d $(lib) && strip -o $(lib)/$$it $(BUILT)/$$it && \
		chmod 755 $(lib)/$$it; } || exit 1; \
	done
	install -d $(doc)/docs && install -m 644 docs/*.md docs/page.png $(doc)/docs
	@pages=$$(mktemp -d) && $(to)/bin/haltwise pages $$pages && install -m 644 $$pages/*.1 $(man) && \
		install -m 644 $$pages/*.md $$pages/*.json $(doc)/docs && \
		for it in $(completions); do \
			install -D -m 644 $$pages/$${it%%:*} $(to)/$${it#*:} || exit 1; \
		done && rm -r $$pages
	install -d $(unit) $(to)/share/haltwise
	@umask 022; for it in $(units); do \
		sed 's|@BIN@|$(PREFIX)/bin|' contrib/$$it >$(unit)/$$it && chmod 644 $(unit)/$$it || exit 1; \
	done
	install -m 644 contrib/prometheus/haltwise.rules.yml contrib/grafana/haltwise.json contrib/pilot.toml $(to)/share/haltwise
	install -m 644 README.md CHANGELOG.md SECURITY.md LICENSE-MIT LICENSE-APACHE $(doc)

# Its manual pages are those that it would write: others may begin with its name.
uninstall: ## Remove what make install installed
	@pages=$$(mktemp -d) && $(to)/bin/haltwise pages $$pages && \
		(cd $$pages && ls *.1) | while read page; do rm -f $(man)/$$page; done; rm -r $$pages
	rm -f $(foreach it,$(completions),$(to)/$(lastword $(subst :, ,$(it)))) $(to)/bin/haltwise
	rm -f $(addprefix $(unit)/,$(units))
	rm -rf $(doc) $(lib) $(to)/share/haltwise

dist: setup-build ## Make the archive, the .deb and the .rpm of a static program: target/packages
	cargo xtask dist

demo: setup-demo ## Boot a lab VM, predict what another ceiling would do to it, and measure that
	@tools/demo

demo-fleet: setup-fleet ## Say what a fleet of made-up hosts should set, and show its page
	@tools/demo --fleet

test: setup ## Run the tests, one boot of a stock kernel too: at most 15 minutes
	$(build-all)
	$(xtask) test

test-long: setup-long ## Run what takes long: long simulations, all pages in a browser, Spark
	$(build-all)
	$(xtask) test --long

test-kernels: setup ## Run all checks in all stock kernels: some two hours, and nothing is skipped
	$(build-all)
	$(xtask) kernels
	$(xtask) kernels --thorough

check: setup ## The gate: format, lints, documentation, tidiness, size, tests
	$(build-all)
	$(xtask) check

# The short benchmarks, in some five minutes. The others, and more rounds: bench/NAME.py --help.
bench: setup build ## Measure what recording costs and whether it is right: five minutes
	bench/overhead.py halts --rounds 3 --slice-ms 800
	bench/overhead.py exits --rounds 3
	bench/overhead.py loss
	bench/overhead.py truth --rounds 1

clean: ## Remove all that was built
	cargo clean
