# `make` lists the targets.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT   := $(shell git rev-parse HEAD 2>/dev/null)
FUZZTIME := 30s
TOOLS    := $(CURDIR)/.cache/bin
LINT     := v2.15.0
VULN     := v1.9.0

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(TOOLS)/golangci-lint-$(LINT) ## download modules, build the linter, look for servers to test on
	go mod download
	@ls /usr/lib/postgresql/*/bin/initdb 2>/dev/null || command -v initdb \
		|| echo "no PostgreSQL server here: tests and demo will download one; better install Debian's package postgresql"
	@echo "tests also run MySQL 9, MySQL 8.0 and MariaDB: e2e/lab/lab install-servers (root on Debian) installs them outside of the system's services"

.PHONY: build
build: ## build bin/replicator, static; the same commit and Go make the same bytes
	@echo "building bin/replicator $(VERSION)"
	@CGO_ENABLED=0 go build -trimpath -ldflags '-X main.version=$(VERSION) -X main.commit=$(COMMIT)' -o bin/replicator ./cmd/replicator

.PHONY: man
man: build ## man pages into bin/man; bin/replicator completion writes shell completions
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) bin/replicator man bin/man
	@echo "wrote $$(ls bin/man | wc -l) pages to bin/man"

.PHONY: test
test: ## unit, protocol, conformance and database tests with the race detector; starts what it needs
	@echo "testing every package with -race; tests start private PostgreSQL, MySQL and MariaDB servers and Kafka brokers on free ports"
	go vet ./...
	go test -race -timeout 40m ./...

.PHONY: race
race: ## the concurrent packages three times over, with the race detector
	go test -race -count=3 -timeout 20m ./checkpoint/... ./debezium/... ./txnsink/...

.PHONY: lint
lint: $(TOOLS)/golangci-lint-$(LINT) ## golangci-lint, with .golangci.yml
	@echo "linting"
	@$< run ./...

# The linter is built with this machine's Go: a downloaded binary may not read a newer language.
$(TOOLS)/golangci-lint-$(LINT):
	@echo "building golangci-lint $(LINT) into $(TOOLS) (a minute or two, once)"
	@mkdir -p $(TOOLS)
	@GOBIN=$(TOOLS) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT)
	@mv $(TOOLS)/golangci-lint $@

.PHONY: vuln
vuln: ## govulncheck: known weaknesses in what is called, of Go and of modules (asks vuln.go.dev)
	@timeout 10 bash -c '</dev/tcp/vuln.go.dev/443' 2>/dev/null || { echo "vuln.go.dev cannot be reached from here: nothing is known of weaknesses"; [ -z "$(VULN_REQUIRED)" ]; exit; }; \
		go run golang.org/x/vuln/cmd/govulncheck@$(VULN) ./...

# An input that reaches new code is made smaller for a second, not for Go's minute: a target that asks a database has only a few tries a second.
.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (30s), from its seeds and from what earlier runs have found
	@bin=$$(mktemp -d); trap 'rm -rf "$$bin"' EXIT; \
	for dir in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
		go test -c -fuzz . -o "$$bin/fuzz" "$$dir"; \
		for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9]*\)(.*/\1/p' "$$dir"/*_test.go); do \
			echo "fuzzing $$dir $$target for $(FUZZTIME)"; \
			(cd "$$dir" && "$$bin/fuzz" -test.run '^$$' -test.fuzz "^$$target\$$" -test.fuzztime $(FUZZTIME) -test.fuzzminimizetime 1s -test.fuzzcachedir "$$(go env GOCACHE)/fuzz/$$(go list)"); \
		done; \
	done

.PHONY: bench
bench: ## every benchmark, as tables of docs/performance.md; BENCH (.) and BENCHTIME (1s) as in go test
	@echo "$$(date +%F), $$(go version | cut -d' ' -f3), $$(nproc) cores, load average $$(cut -d' ' -f1 /proc/loadavg 2>/dev/null || echo unknown)"
	@go test -run '^$$' -bench '$(or $(BENCH),.)' -benchtime $(or $(BENCHTIME),1s) -benchmem $$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...) | awk -f e2e/bench/table.awk

.PHONY: bench-peers
bench-peers: build ## beside Debezium's JDBC sink, Flink and the database's own limit, on the real stack; `ratio NAME VALUE` lines
	e2e/lab/lab install
	e2e/lab/lab up mysql kafka postgres connect >/dev/null
	e2e/bench/run load one
	e2e/bench/run report bin/replicator --rounds $(or $(ROUNDS),3)

.PHONY: e2e
e2e: ## MySQL, Debezium, Kafka and PostgreSQL for real, with kills (root on Debian; installs them the first time)
	e2e/run

.PHONY: chaos
chaos: ## DURATION (10m) of kills, stops, cut connections, full and slow disks, clock jumps on that stack; E2E_SEED repeats a schedule, TARGET=mariadb has another target
	CHAOS_TARGET=$(TARGET) CHAOS_DURATION=$(or $(DURATION),10m) e2e/run -timeout 24h -run '^TestFaultsLoseAndRepeatNothing$$'

.PHONY: cluster
cluster: ## DURATION (10m) of kills, stops, cuts, scaling and DDL under three processes of one pipeline; TARGET=mysql9 or mariadb; E2E_SEED as above
	CLUSTER_DURATION=$(or $(DURATION),10m) CLUSTER_TARGET=$(TARGET) e2e/run -timeout 24h -run '^TestClusterLosesAndRepeatsNothing$$'

.PHONY: soak
soak: ## DURATION (1h) of 2,000 changes a second with DDL and restarts; soak.csv and soak.svg go beside the stack's logs
	SOAK_DURATION=$(or $(DURATION),1h) e2e/run -timeout 24h -tags e2e,soak -run '^TestSoakStaysFlat$$'

.PHONY: browser
browser: ## the status page in a real Chromium, on a real pipeline; BROWSER_SHOTS=DIR keeps screenshots
	go test -count=1 -timeout 5m -tags browser ./e2e/browser

.PHONY: demo
demo: build ## the whole job on this machine: killed on the way, and every row compared
	bin/replicator demo

.PHONY: golden
golden: ## write the golden files anew; the diff is the review
	go test $$(grep -rlE 'flag\.Bool\("update"' --include='*_test.go' . | xargs -n1 dirname | sort -u) -update
