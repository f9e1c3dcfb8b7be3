# make          builds the libraries from what is committed, into out/
# make arm64    builds the libraries and the simulators for arm64, with Debian's cross compiler, into out/arm64/
# make demo     runs the C, the Python and the Go program on host memory
# make test     runs everything that can be checked here
# make bench    measures, and writes docs/bench.md
# make lint     runs the linters
# make fuzz     runs each fuzz target for FUZZTIME
# make example-nixl       loads weights in one process and reads them in another, with NIXL
# make wheels   builds the Python package's wheels, for x86-64 and arm64
# make test-wheels        installs and checks them
# make test-interpreters  tests the Python package with every interpreter that is found
# make test-torch    tests with a real PyTorch, which it installs (5 GB); on a GPU too where there is one
# make gpu-check     checks and times arenas on a real GPU
# make verify-vendor compares the specs with all that vendors publish
# make generate writes everything that follows from spec/
#
# Nothing here generates by the way: a build uses what is committed.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:

GO ?= go
CC ?= gcc
CXX ?= g++
PYTHON ?= python3
export CC

BACKENDS := $(patsubst spec/backends/%.yaml,%,$(wildcard spec/backends/*.yaml))
ABI_MAJOR := $(shell sed -n 's/^abi arenagen \([0-9]*\)\..*/\1/p' include/arenagen.abi)

# What a library is built from.
GO_SOURCES := go.mod go.sum $(shell find arena backends -type f \( -name '*.go' -o -name '*.c' -o -name '*.h' -o -name '*.map' -o -name '*.pc' \) ! -name '*_test.go')

# Where what is built for one architecture lies.
OUT := out

# One library for each backend, and one with all of them.
LIBRARIES := $(BACKENDS:%=$(OUT)/lib/libarenagen_%.so) $(OUT)/lib/libarenagen.so
WARNINGS := -std=c99 -Wall -Wextra -Werror -pedantic

.PHONY: all
all: $(LIBRARIES) out/bin/arenactl out/include/arenagen.h $(BACKENDS:%=out/lib/pkgconfig/arenagen_%.pc) out/lib/pkgconfig/arenagen.pc

# The version script and the SONAME must come from here: cgo refuses them in a source file.
define build_library
@mkdir -p $(@D)
@rm -f $@
CGO_ENABLED=1 $(GO) build -trimpath -buildvcs=false -buildmode=c-shared \
  -ldflags="-s -w -extldflags '\"-Wl,--version-script=$(CURDIR)/$(1)/exports.map\" -Wl,-soname,$(@F).$(ABI_MAJOR)'" \
  -o $@ ./$(1)
@rm -f $(@:.so=.h)
@ln -sf $(@F) $@.$(ABI_MAJOR)
endef

$(OUT)/lib/libarenagen_%.so: $(GO_SOURCES) | tools
	$(call build_library,backends/$*/libarenagen_$*)

$(OUT)/lib/libarenagen.so: $(GO_SOURCES) | tools
	$(call build_library,backends/all/libarenagen)

out/include/arenagen.h: include/arenagen.h
	@install -D -m 644 $< $@

.SECONDEXPANSION:
out/lib/pkgconfig/arenagen_%.pc: backends/$$*/libarenagen_$$*/arenagen_$$*.pc
	@install -D -m 644 $< $@

out/lib/pkgconfig/arenagen.pc: backends/all/libarenagen/arenagen.pc
	@install -D -m 644 $< $@

# Simulators of vendors' drivers, under the names by which the libraries look for those.
SIMULATED := $(patsubst backends/sim/c/zz_generated_%.c,%,$(wildcard backends/sim/c/zz_generated_*.c))
SIM_SOURCES := $(wildcard backends/sim/c/*)

.PHONY: simulators
simulators: $(SIMULATED:%=$(OUT)/sim/.%)

# The name is the first that the backend's file lists. The target has it.
$(OUT)/sim/.%: $(SIM_SOURCES) spec/backends/%.yaml | tools
	@mkdir -p $(@D)
	@name=$$(sed -n 's/^ *linux: \[\([^],]*\).*/\1/p' spec/backends/$*.yaml); \
	$(CC) -std=gnu11 -O2 -Wall -Wextra -Werror -fPIC -shared -pthread -Wl,-soname,$$name -o $(@D)/$$name \
	  backends/sim/c/core.c backends/sim/c/zz_generated_$*.c; \
	echo $$name >$@

# For Grace and other arm64 machines.
ARM64 := CC=aarch64-linux-gnu-gcc GOARCH=arm64 OUT=out/arm64

.PHONY: arm64 libraries
libraries: $(LIBRARIES)
arm64:
	@command -v aarch64-linux-gnu-gcc >/dev/null || { echo "missing: aarch64-linux-gnu-gcc (a C compiler for arm64). apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross" >&2; exit 1; }
	@$(MAKE) $(ARM64) libraries simulators

# tools says exactly what is missing, before anything else fails for want of it.
.PHONY: tools
tools:
	@GO="$(GO)" CC="$(CC)" PYTHON="$(PYTHON)" scripts/check-tools

out/bin/arenactl: $(GO_SOURCES) $(wildcard cmd/arenactl/*.go internal/trace/*.go)
	@mkdir -p out/bin
	CGO_ENABLED=0 $(GO) build -trimpath -o $@ ./cmd/arenactl

# gpu-check needs a GPU, the built library and PyTorch, and no network. BACKEND is cuda or hip.
BACKEND ?= cuda
.PHONY: gpu-check
gpu-check: out/lib/libarenagen_$(BACKEND).so
	$(PYTHON) scripts/gpu_check.py $(BACKEND) out/lib/libarenagen_$(BACKEND).so

# verify-vendor compares the specs with everything that vendors publish, also in large packages (2 GB). It names licences.
.PHONY: verify-vendor
verify-vendor: all
	PYTHON="$(PYTHON)" tests/vendor/fetch out/vendor all
	$(GO) test -count=1 -v ./tests/vendor

.PHONY: generate
generate:
	$(GO) generate ./...

.PHONY: demo
demo: all
	$(CC) $(WARNINGS) -O2 -Iout/include -o out/demo examples/c/demo.c -Lout/lib -larenagen_stub -Wl,-rpath,'$$ORIGIN/lib' -pthread
	@echo; echo "== C"; out/demo
	@echo; echo "== Python"; $(PYTHON) examples/python/demo.py
	@echo; echo "== Go, without cgo"; cd examples/go && CGO_ENABLED=0 $(GO) run .

.PHONY: test
test: all
	@mkdir -p out/log
	$(GO) run ./gen/cmd/arenagen generate --check
	$(GO) vet ./...
	GOARCH=arm64 CGO_ENABLED=0 $(GO) vet $$(CGO_ENABLED=0 $(GO) list ./... | grep -v '/libarenagen')
	$(GO) test -race -shuffle=on -v ./... 2>&1 | scripts/summarise out/log/race.txt
	CGO_ENABLED=0 $(GO) test -shuffle=on -v $$(CGO_ENABLED=0 $(GO) list ./... | grep -v '/libarenagen') 2>&1 | scripts/summarise out/log/nocgo.txt
	cd examples/go && CGO_ENABLED=0 $(GO) test -shuffle=on -v ./... 2>&1 | ../../scripts/summarise ../../out/log/example.txt
	cd gen/schematest && $(GO) test -shuffle=on -v ./... 2>&1 | ../../scripts/summarise ../../out/log/schema.txt
	@$(MAKE) test-python
	scripts/count-skips out/log/race.txt out/log/nocgo.txt out/log/example.txt out/log/schema.txt out/log/python.txt

# The Python package is tested as it lies here, with the library in out/lib.
PYTEST := -m pytest -q -p no:cacheprovider --results

.PHONY: test-python
test-python: all simulators bench/libgil
	@mkdir -p out/log
	@scripts/python-env "$(PYTHON)" out/test-env -r tests/python/requirements.txt mypy==1.18.2
	out/test-env/bin/mypy --config-file python/pyproject.toml --cache-dir out/mypy python/arenagen
	@rm -f out/log/python.txt
	PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=python out/test-env/bin/python $(PYTEST) out/log/python.txt tests/python

# What takes the GIL, for the test that shows what comes of it.
.PHONY: bench/libgil
bench/libgil:
	@$(MAKE) -s -C bench ../out/bench/libgil.so

# More interpreters than are found can be named in INTERPRETERS.
.PHONY: test-interpreters
test-interpreters: all simulators bench/libgil
	@mkdir -p out/interpreters
	@for python in $$(scripts/interpreters $(INTERPRETERS)); do \
	  name=$$($$python -c 'import sys, sysconfig; print(sys.version.split()[0] + ("t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""))'); \
	  echo "== $$name"; \
	  scripts/python-env $$python out/interpreters/$$name -r tests/python/requirements.txt; \
	  rm -f out/interpreters/$$name.txt; \
	  PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=python out/interpreters/$$name/bin/python $(PYTEST) out/interpreters/$$name.txt tests/python; \
	done

# NIXL brings UCX. Neither needs a GPU, nor PyTorch, which pip would add for 5 GB: hence --no-deps.
.PHONY: example-nixl
example-nixl: out/lib/libarenagen.so
	@scripts/python-env "$(PYTHON)" out/nixl-env --no-deps nixl==1.5.1 nixl-cu12==1.5.1 numpy==2.2.6
	out/nixl-env/bin/python examples/nixl/load.py

WHEEL_TOOLS := ziglang==0.15.1 build==1.6.1 hatchling==1.33.0 auditwheel==6.4.2

.PHONY: wheels
wheels: | tools
	@scripts/python-env "$(PYTHON)" out/wheel-env $(WHEEL_TOOLS)
	GO="$(GO)" scripts/build-wheels $(CURDIR)/out/wheel-env/bin/python out/wheels

.PHONY: test-wheels
test-wheels: wheels
	@scripts/python-env "$(PYTHON)" out/test-env -r tests/python/requirements.txt mypy==1.18.2
	PYTHONDONTWRITEBYTECODE=1 out/test-env/bin/python -m pytest -q -p no:cacheprovider tests/packaging

# A CUDA build of PyTorch from PyPI. Without a GPU the tests that need one are skipped.
.PHONY: test-torch
test-torch: all
	@scripts/python-env "$(PYTHON)" out/torch-env -r tests/python/requirements.txt -r tests/torch/requirements.txt
	PYTHONDONTWRITEBYTECODE=1 out/torch-env/bin/python -m pytest -q -rs -p no:cacheprovider tests/torch

# How long each fuzz target runs.
FUZZTIME ?= 1m

.PHONY: fuzz
fuzz:
	$(GO) test ./gen/internal/ir -run '^$$' -fuzz '^FuzzLoad$$' -fuzztime $(FUZZTIME) -fuzzminimizetime 1x
	$(GO) test ./backends/kit/options -run '^$$' -fuzz '^FuzzParse$$' -fuzztime $(FUZZTIME) -fuzzminimizetime 1x
	$(GO) test ./arena -run '^$$' -fuzz '^FuzzOperations$$' -fuzztime $(FUZZTIME) -fuzzminimizetime 1x
	$(GO) test ./internal/trace -run '^$$' -fuzz '^FuzzLoad$$' -fuzztime $(FUZZTIME) -fuzzminimizetime 1x

.PHONY: bench
bench: all simulators
	$(MAKE) -C bench

# The linters are built from source at these versions; that takes minutes the first time.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOLANGCI_LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

.PHONY: lint
lint: all
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	$(GO) run $(GOLANGCI_LINT) run ./...

.PHONY: clean
clean:
	rm -rf out
