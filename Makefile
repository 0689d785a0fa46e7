# What there is: make help

GO            ?= go
TEST_TIMEOUT  ?= 20m
# Most tests on real servers wait: for a lock, a lease, a process to end.
TEST_PARALLEL ?= 8
BENCHFLAGS    ?=
FUZZTIME      ?= 10s
PACKAGES      ?= work

GOLANGCI_LINT_VERSION := v2.15.0
GOLANGCI_LINT         := $(CURDIR)/bin/golangci-lint-$(GOLANGCI_LINT_VERSION)

# Every module of the workspace, as folders.
MODULES := $(shell $(GO) work edit -json | sed -n 's/^.*"DiskPath": "\(.*\)".*$$/\1/p')

.DEFAULT_GOAL := help
.PHONY: help test bench services fmt fuzz clean \
	lint lint-format lint-vet lint-golangci lint-errortext lint-modules bin/services

help: ## Print this
	@sed -n 's/^\([a-z][a-z-]*\):.*## \(.*\)$$/\1	\2/p' $(MAKEFILE_LIST) | while IFS='	' read -r name what; do printf '  %-10s %s\n' "$$name" "$$what"; done

bin/services:
	@$(GO) build -o $@ ./internal/integration/cmd/services

# The lines below call bin/services without a shell between: it ends when its
# parent does, and that is then make itself.

test: bin/services ## Run every module's tests on real servers, with the race detector (PACKAGES=./worker/... TESTFLAGS=-v)
	bin/services run -- $(GO) test -race -parallel $(TEST_PARALLEL) -timeout $(TEST_TIMEOUT) $(TESTFLAGS) $(PACKAGES)

bench: bin/services ## Measure beside pgbench, with durable commits (BENCHFLAGS=--help)
	YEKBAR_SERVICES_FSYNC=1 bin/services run -- sh -ec 'YEKBAR_DATABASE="$$YEKBAR_TEST_POSTGRES" $(GO) run ./cmd/yekbar bench $(BENCHFLAGS)'

services: bin/services ## Keep the servers running until Ctrl-C, and print their URLs
	bin/services run

lint: lint-format lint-vet lint-golangci lint-errortext lint-modules ## Check format, vet, linters and modules

lint-format:
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "not formatted (make fmt):"; echo "$$unformatted"; exit 1; }

lint-vet:
	$(GO) vet work

lint-golangci: $(GOLANGCI_LINT)
	@set -e; for m in $(MODULES); do echo "golangci-lint: $$m"; (cd $$m && $(GOLANGCI_LINT) run ./...); done

$(GOLANGCI_LINT):
	@mkdir -p $(@D)
	GOWORK=off GOBIN=$(@D)/new $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	@mv $(@D)/new/golangci-lint $@ && rmdir $(@D)/new

# What an error is must not depend on its text: servers speak many languages.
lint-errortext:
	@! grep -rnE --include='*.go' --exclude='*_test.go' \
		'strings\.(Contains|HasPrefix|HasSuffix|EqualFold)\(err\.Error\(\)|err\.Error\(\) *[=!]=' . \
		|| { echo "an error judged by its text; use errors.Is, errors.As or the server's code"; exit 1; }

# Each module stands on its own, and the root on the standard library.
lint-modules:
	@! grep -n '^require' go.mod || { echo "the root module requires nothing but the standard library"; exit 1; }
	@set -e; for m in $(MODULES); do echo "module: $$m"; (cd $$m && GOWORK=off $(GO) build ./... && GOWORK=off $(GO) mod tidy -diff); done

fmt: ## Format every Go file
	gofmt -w .

# go test takes one fuzz test at a time.
fuzz: bin/services ## Fuzz every fuzz test for a while (FUZZTIME=10s each)
	bin/services run -- sh -ec 'for m in $(MODULES); do (cd $$m && for p in $$($(GO) list ./...); do \
		for f in $$($(GO) test -run "^$$" -list "^Fuzz" $$p | grep "^Fuzz" || true); do \
		echo "$$p $$f"; $(GO) test -run "^$$" -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$p; done; done); done'

clean: bin/services ## Remove the servers' data and the built tools
	bin/services clean
	rm -rf bin
