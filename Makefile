# kernhes: `make run` shows it at work, `make test` tests it, `make help` lists the rest.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

export CGO_ENABLED ?= 0
OCB      := go run go.opentelemetry.io/collector/cmd/builder@v0.161.0
CHECK    := go run honnef.co/go/tools/cmd/staticcheck@v0.8.2
VERSION  ?= $(shell git describe --always --dirty 2>/dev/null || echo devel)
DIST     := otelcol-dist/build
SOURCES  := $(shell find receiver internal connector exporter extension -name '*.go' -not -name '*_test.go' 2>/dev/null) \
            $(shell find receiver internal connector exporter extension -name '*.tsv' 2>/dev/null)
FUZZTIME ?= 30s

.PHONY: bench-chain test-boards test-story mutation mutation-c coverage pictures test-python wheel help run gpu sql test test-sql test-go test-c build dist cli shim lint bench fuzz golden setup clean e2e-jaeger soak hostile

help: ## list what there is
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: build bin/duckdb-run ## build all, play the bundled recordings through it and print where the time went (ONCE=1: then end)
	@scripts/run

build: dist cli shim wheel analysis ## build everything into bin/

test: test-go coverage test-c test-python test-boards ## everything: vet, format, Go tests with the race detector, C tests under sanitizers

# What reads bytes from outside, by its own tests.
DECODERS := ./internal/wire ./internal/chunk
coverage: ## the decoders of wire and chunk must be covered to 90% by their own tests
	@go test -cover $(DECODERS) | awk '{ print } \
	  /^ok/ && match($$0, /coverage: [0-9.]+/) { seen++; if (substr($$0, RSTART + 10, RLENGTH - 10) + 0 < 90) low = 1 } \
	  END { exit low || seen != $(words $(DECODERS)) }'

# The tests run from the wheel, installed in a bare virtual environment without network; test_wire.py needs the shim and the mock's CUPTI.
test-python: wheel
	@$(MAKE) --no-print-directory -C shim OUT=$(CURDIR)/bin
	@$(MAKE) --no-print-directory -C shim/mock OUT=$(CURDIR)/bin $(CURDIR)/bin/mock/libcupti.so.13
	rm -rf bin/test-venv && python3 -m venv bin/test-venv
	bin/test-venv/bin/pip install --quiet --disable-pip-version-check --no-index $(WHEEL)
	PYTHONDONTWRITEBYTECODE=1 KERNHES_WHEEL=$(CURDIR)/$(WHEEL) KERNHES_SHIM=$(CURDIR)/bin/libkernhes.so \
	  KERNHES_MOCK_CUPTI=$(CURDIR)/bin/mock/libcupti.so.13 bin/test-venv/bin/python -m unittest discover -s python/tests

test-go: setup
	go vet ./...
	@wrong=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); test -z "$$wrong" || { echo "gofmt: $$wrong"; exit 1; }
	go test -vet=off -timeout 30m ./...
	CGO_ENABLED=1 go test -vet=off -race -short -timeout 30m $$(scripts/raced)

# Both sanitizers at once: most of the time these tests wait for processes. Sanitized builds lie apart, so that they never
# stand where a demo looks.
test-c: setup
	@$(MAKE) --no-print-directory -j2 --output-sync=target test-c-address,undefined test-c-thread
test-c-%:
	for part in shim shim/mock shim/play; do $(MAKE) -j1 -C $$part test SANITIZE=$* OUT=$(CURDIR)/bin/test-$(firstword $(subst $(comma), ,$*)); done
comma := ,

dist: bin/otelcol-kernhes

# ocb runs only when what it reads has changed; otherwise its module is compiled again, 4 s warm.
$(DIST)/main.go: builder-config.yaml go.mod | setup
	$(OCB) --config builder-config.yaml --skip-compilation
	@touch $@

bin/otelcol-kernhes: $(DIST)/main.go $(SOURCES)
	cd $(DIST) && go build -trimpath -ldflags='-s -w' -o $(CURDIR)/$@ .

cli: | setup
	go build -trimpath -ldflags='-s -w -X main.version=$(VERSION)' -o bin/kernhes ./cmd/kernhes

shim: | setup ## only the C parts: shim, mock CUPTI, player
	@$(MAKE) --no-print-directory -C shim OUT=$(CURDIR)/bin
	@$(MAKE) --no-print-directory -C shim/mock OUT=$(CURDIR)/bin
	@$(MAKE) --no-print-directory -C shim/play OUT=$(CURDIR)/bin
	@$(MAKE) --no-print-directory -C shim/probe OUT=$(CURDIR)/bin

WHEEL := bin/kernhes-0.1.0-py3-none-any.whl

wheel: $(WHEEL) ## the Python package, as one file that installs without network

$(WHEEL): $(wildcard python/*.py python/*.toml python/*.md python/kernhes/*.py) | setup
	@mkdir -p bin && PYTHONDONTWRITEBYTECODE=1 python3 python/backend.py bin

setup:
	@scripts/setup

lint: setup ## vet, format, staticcheck
	go vet ./...
	@wrong=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); test -z "$$wrong" || { echo "gofmt: $$wrong"; exit 1; }
	$(CHECK) ./...

# The score, and the faults that are right to survive: docs/testing.md.
# A minute or two for each package on two idle cores. PACKAGES=receiver/kernhesreceiver/internal/device runs that one alone.
GREMLINS := go run github.com/go-gremlins/gremlins/cmd/gremlins@v0.6.0
MUTATED  := $(addprefix receiver/kernhesreceiver/internal/,cupti step span device ranges coverage classify) internal/wire internal/chunk
mutation: setup ## change the receiver's rooms, wire and chunk at one place at a time, and list what their own tests do not notice
	@for p in $(or $(PACKAGES),$(MUTATED)); do $(GREMLINS) unleash --timeout-coefficient 20 ./$$p; done

mutation-c: setup ## draw N faults (30) by SEED (1) in the shim's C, one at a time, and list those that no C test notices
	@scripts/mutate-c -n $(or $(N),30) -s $(or $(SEED),1)

gpu: ## on a machine with GPUs and PyTorch: build, check and measure there (results of the last time: docs/gpu.md)
	@scripts/gpu

# DuckDB needs cgo, so it is a module of its own. RUN, A, B and ARCHIVE_B choose what queries/views.sql shows.
ARCHIVE ?= out/archive
bin/duckdb-run: $(shell find analysis -name '*.go' -not -name '*_test.go') analysis/go.mod $(wildcard queries/*.sql queries/*.go) | setup
	cd analysis && CGO_ENABLED=1 go build -o $(CURDIR)/$@ ./cmd/duckdb-run

# What a run's name says must run neither in make nor in the shell: make expands no part of it, and the shell reads it as a variable.
TEXTS := ARCHIVE ARCHIVE_B RUN A B REQUEST FILE
$(foreach name,$(TEXTS),$(eval override $(name) := $$(value $(name))))
export $(TEXTS)

analysis: bin/kernhes-analysis ## only kernhes-analysis: DuckDB for kernhes report and kernhes mcp
bin/kernhes-analysis: $(shell find analysis -name '*.go' -not -name '*_test.go') $(wildcard analysis/report/*.html) analysis/go.mod $(wildcard queries/*.sql queries/*.go) docs/schema.md | setup
	cd analysis && CGO_ENABLED=1 go build -trimpath -ldflags='-s -w' -o $(CURDIR)/$@ ./cmd/kernhes-analysis

sql: bin/duckdb-run ## open DuckDB on the archive, views defined (FILE=queries/share.sql: run that; ARCHIVE, RUN; A, B, ARCHIVE_B for ab.sql; REQUEST for request.sql)
	@bin/duckdb-run -archive "$$ARCHIVE" -archive-b "$$ARCHIVE_B" -run "$$RUN" -a "$$A" -b "$$B" -request "$$REQUEST" $$FILE

test-sql: setup ## the queries and the archive as DuckDB reads it, against the recordings
	cd analysis && CGO_ENABLED=1 go test ./...

test-boards: setup ## the Grafana board and the alerts, by promtool
	@scripts/setup prometheus
	cd dashboards && go vet ./... && go test ./...

# Three minutes, most of them waiting: 75 s without a fault, 75 s with it.
test-story: build ## the simulator with a slow rank, through the collector into a real Prometheus: boards and alerts tell it
	@scripts/setup prometheus
	cd dashboards && go test -count=1 -v -tags chain -run TestThePanels .

# Jaeger has hundreds of modules at releases of its own, so it is built in its own module: 5 to 10 minutes on two idle cores, once.
bin/jaeger: test/jaeger/go.mod test/jaeger/go.sum | setup
	cd test/jaeger && go build -trimpath -ldflags='-s -w' -o $(CURDIR)/$@ github.com/jaegertracing/jaeger/cmd/jaeger

e2e-jaeger: build bin/jaeger ## play recordings of two ranks into a Jaeger on 127.0.0.1 and read every kernel back from it
	go test -count=1 -v -tags chain,jaeger -run TestJaeger ./test/chain

# An hour and a quarter on two idle cores; the settings are in test/chain/soak_test.go.
soak: build ## a billion kernels flat out, then an hour at the pace of a node: memory, books, losses
	go test -count=1 -v -tags chain,soak -timeout 3h -run TestSoak ./test/chain

.PHONY: packages test-packages
packages: $(DIST)/main.go ## .deb, .rpm, tarball, bill of materials and checksums into out/packages (ARCHES="amd64 arm64", VERSION=1.2.3)
	@packaging/build $(ARCHES)

# Needs root; ss, systemd and its tools are Debian's iproute2 and systemd.
test-packages: build ## install, play, kill, upgrade and purge the .deb under a systemd of its own, and compare two builds
	go test -count=1 -v -tags packages -timeout 10m ./test/packages

.PHONY: test-kubernetes
test-kubernetes: ## the manifests of deploy/kubernetes, decoded strictly against the types of the Kubernetes API
	go test -C test/kubernetes -count=1 ./...

.PHONY: vuln
vuln: dist cli ## known vulnerabilities in what the programs have linked (govulncheck; vuln.go.dev, else the newest database that Go's proxy has here)
	@scripts/vuln

# Fifteen kinds, a minute each (TIME); SESSIONS is how many sessions or connections each has.
hostile: ## a good engine beside each hostile kind: is it exact, its acknowledgements, the collector's memory, CPU, series, scrape (ONLY=kind)
	KERNHES_HOSTILE_TIME=$(or $(TIME),1m) KERNHES_HOSTILE_SESSIONS=$(or $(SESSIONS),24) KERNHES_HOSTILE="$(ONLY)" \
	  go test -count=1 -v -timeout 2h -run 'TestHostile$$' ./receiver/kernhesreceiver | grep -v '^=== '

pictures: build ## draw docs/step.png: one step of the recordings, from its Perfetto file, in headless Chromium
	@scripts/pictures

pages: build ## draw docs/pictures/page*.png: the live page of simulated engines, in headless Chromium
	@scripts/pages

bench: ## kernels per CPU-second: frames to device time beside memcpy; packing; Parquet beside two libraries
	go test -run '^$$' -bench . -benchmem ./receiver/... ./internal/wire/... ./internal/chunk/... ./internal/parquet/...

bench-chain: dist ## CPU time a kernel of the built collector: sockets to counters, archive and traces, by case (ROUNDS=1; BEFORE=folder of another build)
	KERNHES_ROUNDS=$(or $(ROUNDS),1) KERNHES_BIN_BEFORE=$(BEFORE) go test -tags chain -run '^$$' -bench BenchmarkChain -benchtime $(or $(TIMES),3)x -timeout 1h ./test/chain

fuzz: ## each fuzz target for FUZZTIME (30s)
	@scripts/fuzz $(FUZZTIME)

golden: ## write golden files and generated parts anew
	go generate ./receiver/... ./connector/...
	@for dir in $$(grep -rl --include='*_test.go' 'flag.Bool("update"' . | xargs -r dirname | sort -u); do \
	  (cd "$$dir" && go test . -update); \
	done

clean: ## remove what was built and written
	rm -rf bin out $(DIST)
