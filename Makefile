# What people type. The work is done by cargo and by `cargo xtask`; this file only puts set-up first.

.DEFAULT_GOAL := build
.PHONY: help setup build demo test check bench clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install the packages that are missing, or say which
	@tools/setup

build: setup ## Build haltwise and the lab (optimised: target/release)
	cargo build --release -p haltwise -p haltwise-lab

demo: setup ## Boot a lab VM, record and report its halts, tune, and prove it
	cargo xtask demo

test: setup ## Run all tests, in stock kernels too
	cargo xtask test

check: setup ## The gate: format, lints, documentation, tidiness, all tests
	cargo xtask check

bench: setup ## Measure what recording costs
	cargo xtask bench overhead

clean: ## Remove all that was built
	cargo clean
