# The targets for developers and CI. Every target needs only Go; kubectl and other programs are built on demand.
GO ?= go
export CGO_ENABLED ?= 0
# How many packages are tested at once: twice the number of processors, since tests of clusters spend half of their time waiting for timers.
PACKAGES ?= $(shell expr 2 \* $$(getconf _NPROCESSORS_ONLN))

.PHONY: build test lint golangci race check clients soak bench compare generate cross measure costs

build: ## bin/minikctl
	$(GO) build -ldflags "-s -w" -o bin/minikctl ./cmd/minikctl

# The packages that take longest, which start first, so that none of them is the last one and has the machine to itself.
LONGEST = ./pkg/internal/clustertest ./pkg/kubelet/process ./pkg/apiserver ./pkg/schedplugins

test: ## all tests; none depends on the machine's speed or memory
	$(GO) test -p $(PACKAGES) -timeout 30m $(LONGEST) ./...

# Packages that make race leaves out: neither they nor their tests start a goroutine. Packages that call them from several are tested.
ONE_GOROUTINE = apiserver/internal/(admission/(match|policy)|allocate|authz|codec|discovery|openapi|patch|tokens|track)|controllers/rbac|kubelet/internal/(crilog|eviction)|schedplugins/internal/guest|supervisor/remove

race: ## the packages with concurrency, with the race detector and caches that detect changes of shared objects (needs a C compiler)
	packages=$$($(GO) list ./pkg/store/... ./pkg/client/... ./pkg/reconcile/... ./pkg/apiserver/... ./pkg/controllers/... ./pkg/scheduler/... ./pkg/schedplugins/... ./pkg/kubelet/... ./pkg/supervisor/... ./pkg/network/... | grep -vE '/pkg/($(ONE_GOROUTINE))$$') && \
		CGO_ENABLED=1 $(GO) test -p $(PACKAGES) -race -short -timeout 30m ./pkg/kubelet/process ./pkg/apiserver ./pkg/schedplugins ./pkg/internal/virtual $$packages

lint: ## formatting, vet, and golangci-lint where it is installed
	@out=$$(gofmt -l cmd pkg); if [ -n "$$out" ]; then echo "not gofmt'ed:"; echo "$$out"; exit 1; fi
	$(GO) vet ./...
	@if command -v golangci-lint >/dev/null; then golangci-lint run; else echo "golangci-lint is not installed: make golangci checks its rules"; fi

golangci: ## golangci-lint, built on demand
	$(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.5.0 run

cross: ## builds for every supported platform
	GOOS=linux GOARCH=amd64 $(GO) build -ldflags "-s -w" -o /dev/null ./cmd/minikctl
	GOOS=linux GOARCH=arm64 $(GO) build -ldflags "-s -w" -o /dev/null ./cmd/minikctl
	GOOS=darwin GOARCH=arm64 $(GO) build -ldflags "-s -w" -o /dev/null ./cmd/minikctl

measure: ## checks that depend on the machine: the cost of a start, of an idle cluster and of pods, 48 hours of a CronJob, and the time of hostile bodies
	MINIKCTL_MEASURE=1 $(GO) test -count 1 -v -run 'TestStartup|TestPodStart' ./pkg/internal/bench
	MINIKCTL_MEASURE=1 $(GO) test -count 1 -run 'TestHostileBodies|TestIdleWatches|TestStalledWatchesShareMemory' ./pkg/apiserver
	MINIKCTL_MEASURE=1 $(GO) test -count 1 -v -run TestMeasure ./pkg/internal/servicetest
	MINIKCTL_MEASURE=1 $(GO) test -count 1 -v -run TestCronJobMissesNoMinute ./pkg/internal/virtual
	MINIKCTL_MEASURE=1 $(GO) test -count 1 -run TestCosts ./pkg/apiserver -costs.every 199 -costs.size 100000
	MINIKCTL_MEASURE=1 $(GO) test -count 1 -run 'TestManyItemsTakeLinearTime|TestManyLabels' ./pkg/objects/podspec ./pkg/apiserver/internal/track

clients: build ## tests with clients of other projects: controller-runtime, cert-manager, Helm, the JavaScript library, every installed kubectl
	$(GO) vet -C pkg/internal/stocktest/certmanager ./...
	cd pkg/internal/stocktest && $(GO) vet ./... && MINIKCTL=$(CURDIR)/bin/minikctl $(GO) test -count 1 ./...
	$(GO) test -count 1 ./pkg/internal/clustertest -run TestStock -kubectls

check: lint test measure race cross clients ## what CI runs

compare: ## measures against another commit's minikctl (BASE) and Kubernetes (ETCD, KUBE_APISERVER, …); see pkg/internal/bench/compare
	$(GO) run ./pkg/internal/bench/compare

soak: ## the long loops: memory after a load, every damage of a store's files, 2,000 losses of power, 1,500 kills of the store, 500 of the API server, 50 of the daemon, 200 of processes of a cluster, 10,000 clusters of the scheduler, 100 changes of its configuration under load, 400 clusters with gangs, 40,000 random steps of a cluster
	$(GO) test ./pkg/store/badger -run TestDamage -damages 4 -count 1 -v -timeout 60m
	$(GO) test ./pkg/store/badger -run TestPowerLoss -losses 2000 -count 1 -v -timeout 60m
	$(GO) test ./pkg/store/badger -run TestKill -kills 1500 -count 1 -v -timeout 60m
	$(GO) test ./pkg/internal/linear -kills 500 -count 1 -v -timeout 60m
	$(GO) test ./pkg/internal/clustertest -run TestKillDaemon -kills 50 -count 1 -v -timeout 30m
	$(GO) test ./pkg/internal/clustertest -run TestFaults -faults 200 -count 1 -v -timeout 30m
	for seed in 1 2 3 4 5; do $(GO) test ./pkg/internal/clustertest -run TestScriptsWithRestarts -restarts.all -restarts.rate 1 -restarts.seed $$seed -count 1 -v -timeout 30m || exit 1; done
	$(GO) test ./pkg/scheduler -run TestIncrementalEngine -engine.clusters 10000 -count 1 -v -timeout 30m
	$(GO) test ./pkg/schedplugins -run TestHotSwapUnderLoad -hotswap.swaps 100 -hotswap.pods 100 -count 1 -v
	$(GO) test ./pkg/schedplugins -run TestGangProperties -gangs.seeds 200 -gangs.steps 200 -count 1 -v -timeout 60m
	$(GO) test ./pkg/internal/virtual -run TestProperties -property.seeds 4 -property.steps 10000 -count 1 -v -timeout 120m
	MINIKCTL_MEASURE=1 $(GO) test ./pkg/apiserver -run TestFairness -count 1 -v
	MINIKCTL_MEASURE=1 $(GO) test -count 1 -v -run TestMemoryAfterLoad ./pkg/internal/bench -timeout 60m
	MINIKCTL_MEASURE=1 $(GO) test -count 1 -v -run TestMemoryAfterLoad ./pkg/internal/bench -cycles 131 -pods 500 -timeout 120m
	MINIKCTL_MEASURE=1 $(GO) test -count 1 -v -run 'TestHostileClients|TestManyWatches|TestWatchesBehind' ./pkg/internal/bench -timeout 30m

costs: ## the CPU time and memory of one request, for every shape of body, verb and place (hours; continues where it was interrupted)
	MINIKCTL_MEASURE=1 $(GO) test -count 1 -v -run 'TestCosts$$' ./pkg/apiserver -timeout 24h -costs.results $(CURDIR)/costs.tsv

bench: ## figures for docs/benchmarks.md
	$(GO) test ./pkg/store/badger -run '^$$' -bench . -benchtime 2s
	$(GO) test ./pkg/apiserver/... ./pkg/scheduler/... -run '^$$' -bench . -benchtime 1s

generate: ## generated files: OpenAPI, managedFields schema, docs
	$(GO) generate ./...
