# The one entry point: `make` alone prints what there is.

STORE    ?= sqlite
FUZZTIME ?= 20s
BENCH    ?=
# Another commit, which bench measures in turn with this checkout, and how often.
AGAINST  ?=
PAIRS    ?= 20
# Where make test-mysql keeps its MySQL (about 800 MB, fetched once).
MYSQL_ROOT ?= $(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(HOME)/.cache)/jobd/mysql-sid

GO       = go
PROGRAMS = jobd jobd-master jobctl
AXE      = 4.11.0
GEARMAN  = gearmanode@0.9.2 winston@2.4.7
MODULES  = . tests
# The packages of each module whose tests take longest, to be started first: go test starts packages in
# the order in which they are named, and what is long and comes last leaves a processor idle. All others
# follow in ./...; a package that is named twice runs once.
LONGEST_.     = ./cmd/jobctl ./journal/eventlog ./store/mysql ./journal/verify ./exec ./exec/runner/host
LONGEST_tests = ./packages ./disorder ./torture ./operator ./audit ./pressure ./walk ./executors ./secure ./monitoring
TOOL     = $(GO) tool -modfile=$(CURDIR)/tools/go.mod
# To the module tests the product is another module: with both in a workspace it is compiled once for both.
BOTH     = GOWORK=$(CURDIR)/tools/both.work
# Servers, daemons and other modules' files are no inputs that go test knows of: a cached result would lie.
# What go vet says is lint's matter, and what test programs would tell a debugger takes half of linking them.
TEST = test -count=1 -vet=off -ldflags=-s
# Half of the time tests wait for what others do: so one package more at once than there are processors.
AT_ONCE = -p $(shell expr $$(nproc) + 1)
ALONE   = -exec 'env -u GOWORK' # what tests compile is in no workspace
# Of the checkout the commit and its date are stamped into the programs, by the lines below: a build
# needs no git and no ownership of the checkout; without them --version --verbose says unknown.
# One way to compile for all targets, that of the published programs, so that each package is compiled
# once: -trimpath and no cgo. Only the race detector needs cgo, and its target says so.
export GOFLAGS := $(GOFLAGS) -buildvcs=false -trimpath
export CGO_ENABLED := 0
COMMIT      = $(shell tools/commit.sh name)
COMMIT_DATE = $(shell tools/commit.sh date)
STAMP       = -X jobd/cmd/internal/version.commit=$(COMMIT) -X jobd/cmd/internal/version.date=$(COMMIT_DATE)
# Debian keeps the server where an ordinary user's PATH does not look.
export PATH := $(PATH):/usr/sbin:/sbin

.PHONY: help build demo demo-gearman package release deps test test-programs go-test test-race test-mysql test-group test-package lint vet lint-source bench torture simulate fuzz walk diagrams ci clean
.DEFAULT_GOAL = help

help: ## print the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/jobd, bin/jobd-master and bin/jobctl
	$(GO) build -ldflags '$(STAMP)' -o bin/ $(PROGRAMS:%=./cmd/%)

demo: build $(if $(filter mysql,$(STORE)),deps) ## run 500 jobs on a master and two workers and check every row (STORE=sqlite or mysql)
	$(GO) build -o bin/demo ./examples/demo
	bin/demo --store $(STORE)

demo-gearman: build ## have the programs of gearmand (gearman, gearadmin) submit and run 500 jobs, and kill jobd among them
	@tools/deps.sh gearman
	$(GO) build -o bin/demo ./examples/demo
	bin/demo --gearman

# What is published, in dist/: tools/package says how. SOURCE_DATE_EPOCH counts before the commit's date.
PACKAGE = cd tools/package && $(GO) run . --root $(CURDIR) --out $(CURDIR)/dist --commit '$(COMMIT)' --date '$(COMMIT_DATE)' \
  --epoch "$${SOURCE_DATE_EPOCH:-$(shell tools/commit.sh epoch)}"

package: ## make .deb, .rpm and .tar.gz for amd64 and arm64, with lists of what is in them (SPDX) and SHA256SUMS, in dist/
	rm -rf dist
	@$(PACKAGE)

release: ## the same, of a clean checkout whose changelog has the version; prints the checksums (make ci comes before it)
	@tools/release-check.sh
	@$(MAKE) --no-print-directory package

deps: ## install what the tests run on (MariaDB, PHP, Python, Node.js and others: tools/deps.sh), through apt where it is missing
	@tools/deps.sh
	@test -e bin/gearmanode/node_modules/gearmanode || npm install --silent --no-save --no-audit --no-fund --prefix bin/gearmanode $(GEARMAN) || \
	  echo "gearmanode could not be fetched: its test is skipped"

test: deps go-test ## run all tests, against a MariaDB that they start themselves

# The programs that tests start, built once for all packages, as JOBD_TEST_BUILT tells them; those below
# failpoints kill themselves at the point that a test names, or hang.
test-programs: build
	$(GO) test -c -vet=off -ldflags=-s -o bin/failpoints/jobd ./cmd/jobd
	$(GO) test -c -vet=off -ldflags=-s -o bin/failpoints/jobd-master ./cmd/jobd-master

go-test: test-programs
	@failed=; $(foreach module,$(MODULES),(cd $(module) && set -x && $(BOTH) JOBD_TEST_BUILT=1 $(GO) $(TEST) $(ALONE) $(AT_ONCE) $(LONGEST_$(module)) ./...) || failed=1; )test -z "$$failed"

test-race: deps build ## run all tests under the race detector (needs a C compiler)
	@failed=; for module in $(MODULES); do (cd $$module && set -x && CGO_ENABLED=1 $(GO) $(TEST) -race ./...) || failed=1; done; test -z "$$failed"

test-mysql: build ## run the store and end-to-end tests on a real MySQL 9 too (needs root, 800 MB)
	@set -e; root=$$(tools/mysql-chroot.sh '$(MYSQL_ROOT)'); set -x; \
	JOBD_TEST_MYSQL_ROOT=$$root $(GO) $(TEST) ./store/...; \
	cd tests && JOBD_TEST_MYSQL_ROOT=$$root $(GO) $(TEST) ./...

test-group: build ## kill the primary of three MySQL servers in a group under load (needs root, 800 MB)
	@set -e; root=$$(tools/mysql-chroot.sh '$(MYSQL_ROOT)'); set -x; \
	cd tests && JOBD_TEST_MYSQL_ROOT=$$root TORTURE=long $(GO) $(TEST) -v -timeout 1h ./torture -run '^TestGroup'

test-browser: build ## look at the page in Debian's Chromium: every screen, by keyboard, without a script, with hostile jobs (PICTURES=folder keeps pictures)
	@tools/deps.sh browser
	test -e bin/axe.min.js || (cd bin && npm pack --silent axe-core@$(AXE) >/dev/null && tar xzf axe-core-$(AXE).tgz --strip-components=1 package/axe.min.js && rm axe-core-$(AXE).tgz)
	cd tests/browser && $(GO) vet ./... && $(GO) $(TEST) -v .

test-package: ## run the tests of the packages for arm64, too, in an emulator (make test has amd64)
	@tools/deps.sh arm64
	cd tests && JOBD_TEST_ARCHS=amd64,arm64 $(GO) $(TEST) -timeout 30m -v ./packages

lint: vet lint-source ## gofumpt, tidy modules, go vet, staticcheck, import table, package docs
	cd tests && $(GO) $(TEST) ./architecture

# Lint without its test, which make test has too, in two parts. To vet, all packages are compiled; with
# more memory that, and staticcheck, take a fifth less time.
vet lint-source: export GOGC = 200
vet:
	set -e; for module in $(MODULES); do (cd $$module && $(BOTH) $(GO) vet ./...); done
	cd tools/package && $(GO) vet ./...

# Tests that run at the same time go first.
lint-source:
	@unformatted=$$(nice -n 19 $(TOOL) gofumpt -l .); \
	if [ -n "$$unformatted" ]; then echo "not formatted with gofumpt:"; echo "$$unformatted"; exit 1; fi
	set -e; for module in $(MODULES) tools tools/package; do (cd $$module && nice -n 19 $(GO) mod tidy -diff); done
	set -e; staticcheck=$$(nice -n 19 $(TOOL) -n staticcheck); \
	for module in $(MODULES); do (cd $$module && $(BOTH) nice -n 19 $$staticcheck ./...); done; \
	cd tools/package && nice -n 19 $$staticcheck ./...

bench: build ## measure everything beside its raw limit, 10 minutes; also into bin/bench.json (BENCH=name: one of it; BENCH=list: which; AGAINST=commit: in pairs with it)
	@tools/deps.sh
	cd tests && $(GO) run ./bench --json ../bin/bench.json $(if $(AGAINST),--against $(AGAINST) --pairs $(PAIRS)) $(BENCH)

torture: deps build ## faults for long, half an hour of schedules that nobody thought of, 1,600 forgeries of a journal, and every change of clocks of 126 years
	TORTURE=long $(GO) test -count=1 -v -run '^TestTamperingRun$$' ./journal/verify
	TORTURE=long $(GO) test -count=1 -v -timeout 2h ./exec/schedule
	cd tests && TORTURE=long $(GO) test -count=1 -v -parallel 4 -timeout 2h ./torture
	cd tests && TORTURE=long $(GO) test -count=1 -v -timeout 2h ./executors -run Killed
	cd tests && TORTURE=long $(GO) test -count=1 -timeout 2h ./disorder

# On a Go runtime in which nothing is random, a process for each seed.
simulate: ## run workers, masters and faults in virtual time, the same each time (SIM_SEED, SIM_SEEDS, SIM_WORKERS, SIM_JOBS, SIM_FAULTS=names, SIM_TRACE=file; SIM_GROWTH=10000: what costs grow to)
	@tools/overlay.sh
	cd tests && $(GO) test -c -vet=off -overlay ../bin/overlay.json -o ../bin/simulation ./simulation
	cd tests/simulation && first=$${SIM_SEED:-1} && for seed in $$(seq $$first $$((first + $${SIM_SEEDS:-1} - 1))); do \
	  GOMAXPROCS=1 GODEBUG=asyncpreemptoff=1 SIM_SEED=$$seed SIM_SEEDS=1 ../../bin/simulation -test.v -test.timeout 2h \
	    -test.run $$(test -z "$$SIM_GROWTH" && echo Simulation || echo Growth) || exit 1; \
	done

fuzz: ## fuzz every fuzz test for a while (FUZZTIME=20s)
	@set -e; for package in $$($(GO) list ./...); do \
	  for name in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
	    echo "$$package $$name"; $(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) $$package; \
	  done; done

walk: deps build ## go from the package to a watched service on a small Debian that has never seen jobd, and tell how long it took (needs root)
	cd tests && $(GO) test -count=1 -v -run '^TestWalk$$' ./walk

diagrams: deps ## draw docs/*.svg from docs/diagrams/*.dot
	tools/diagrams.sh

# What computes all the time goes beside what waits: go vet beside apt, and the rest of lint, behind all
# others, beside the tests. What runs at once runs to its end, and the failure of any fails this.
ci: ## what a change must pass: lint, test, demo
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target deps vet
	@$(MAKE) --no-print-directory --jobs=2 go-test lint-source demo

clean: ## remove what was built
	rm -rf bin dist
