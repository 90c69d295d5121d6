# Tollgate: one Makefile, not recursive; everything it makes lies in build/.
#
#   make             build/tollgate (the gateway), build/fake (a simulated model server), build/load, build/soak,
#                    build/journal-bench
#   make deps        installs the Debian packages that are missing; deps-bench: the peers of the bench
#   make run         deps, build, two simulated model servers and the gateway; DETACH=1 returns when ready;
#                    SMALL=URL LARGE=URL stand it before real servers; make stop ends it
#   make test        every suite under AddressSanitizer; the last line is the sum
#   make unit | integration | cases | sdk | fuzz-regress | lint     one suite of make test
#   make sanitize    units and integration under ThreadSanitizer, after the same under ASan and UBSan
#   make fuzz-planted  shows that every fuzz target finds a fault planted in it
#   make fuzz        every fuzz target, FUZZ_RUNS executions or FUZZ_SECONDS seconds, whichever is more
#   make test-real [REAL="vllm llamacpp"]   the gateway before real model servers, installed into build/real; not part of make test
#   make mutations   a journal spoilt MUTATIONS times (10000), SEED=N: an audit must find each; make test has 400
#   make crash       kill -9 CRASHES times (1000) under load, then every token against the journal; SEED=N; make test has 50
#   make power       power cuts, POWER times (200) under load: no answer that was given may lack its row; SEED=N; make test has 20
#   make soak [SOAK=options] | bench [QUICK=1] | bare | cover | format | install | clean
#
# Variables: CC=gcc or clang, LTO= (none; with gcc the plain build has it), V=1 (show commands), DESTDIR, PREFIX. Objects of each compiler and flavour lie apart.

ifeq ($(origin CC),default)
CC := gcc
endif
CLANG  ?= clang
PYTHON ?= /usr/bin/python3
PREFIX ?= /usr/local
FUZZ_RUNS    ?= 10000000
FUZZ_SECONDS ?= 1200
CRASHES      ?= 1000
POWER        ?= 200
MUTATIONS    ?= 10000
SEED         ?= 1

.DELETE_ON_ERROR:
.SECONDARY:
MAKEFLAGS += --no-builtin-rules
.SUFFIXES:

COMPILER := $(notdir $(lastword $(CC)))
LTO      ?= $(if $(findstring gcc,$(COMPILER)),1)
SUFFIX   := $(if $(LTO),-lto)
Q        := $(if $(V),,@)

# ---- Sources: the rooms by wildcard, each program by its folder ----

ROOMS         := config/base config meter cache router gateway
room_sources  := $(filter-out gateway/main.c,$(wildcard $(ROOMS:%=%/*.c)))
unit_sources  := $(wildcard tests/unit/test_*.c)
fuzz_sources  := $(wildcard tests/fuzz/fuzz_*.c)

tollgate_sources := $(wildcard gateway/main.c)
fake_sources     := $(wildcard tests/fake/*.c)
load_sources     := $(wildcard bench/load.c bench/load_*.c)
soak_sources     := $(wildcard tests/soak/*.c) \
                    $(filter-out bench/load_run.c,$(wildcard bench/load_*.c))
journal-bench_sources := $(wildcard bench/journal.c)
mutate_sources   := $(wildcard tests/mutations/*.c)
PROGRAMS         := $(foreach program,tollgate fake load soak journal-bench mutate,$(if $($(program)_sources),$(program)))

# ---- Flavours: how a folder of objects is compiled and linked ----

plain_compile := -O3 -g $(if $(LTO),-flto=auto)
plain_link    := $(if $(LTO),-flto=auto -O3)
asan_compile  := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
asan_link     := -fsanitize=address,undefined
tsan_compile  := -O1 -g -fno-omit-frame-pointer -fsanitize=thread
tsan_link     := -fsanitize=thread
fuzz_compile  := $(asan_compile) -fsanitize=fuzzer-no-link
fuzz_link     := $(asan_link)
cover_compile := -O1 -g -fprofile-instr-generate -fcoverage-mapping -fsanitize=fuzzer-no-link
cover_link    := -fprofile-instr-generate

PLAIN := build/$(COMPILER)-plain$(SUFFIX)
ASAN  := build/$(COMPILER)-asan
TSAN  := build/$(COMPILER)-tsan
FUZZ  := build/$(notdir $(CLANG))-fuzz
COVER := build/$(notdir $(CLANG))-cover

unit_programs = $(unit_sources:tests/unit/%.c=$(1)/unit/%)
fuzz_programs = $(fuzz_sources:tests/fuzz/%.c=$(1)/fuzz/%)

.PHONY: all
all: $(PROGRAMS:%=build/%)

# $(1) folder, $(2) compiler, $(3) flavour. Flags come from files that deploy/flags wrote once per
# compiler, so that nothing is asked of compiler or pkg-config before "make deps" has run.
define FLAVOUR
$(1)_flags := build/$(notdir $(lastword $(2))).flags

$(1)/obj/%.o: %.c $$($(1)_flags) Makefile
	@mkdir -p $$(@D)
	$$(if $$(V),,@echo '  $(notdir $(lastword $(2))) $(3) $$<')
	$$(Q)$(2) @$$($(1)_flags) $$(if $$(filter plain,$(3)),@$$($(1)_flags:.flags=.harden)) $$($(3)_compile) -MMD -MP -c -o $$@ $$<

$(1)/obj/config/default.o: build/generated/default_yaml.h

$(1)/libtollgate.a: $$(room_sources:%.c=$(1)/obj/%.o)
	@rm -f $$@
	$$(Q)$$(if $$(LTO),gcc-ar,ar) rcs $$@ $$^

$$(foreach program,$$(PROGRAMS),$$(eval $(1)/bin/$$(program): $$($$(program)_sources:%.c=$(1)/obj/%.o)))
$$(PROGRAMS:%=$(1)/bin/%): $(1)/libtollgate.a
	@mkdir -p $$(@D)
	$$(Q)$(2) $$(if $$(filter plain,$(3)),@$$($(1)_flags:.flags=.harden-link)) $$($(3)_link) -o $$@ $$(filter %.o,$$^) $(1)/libtollgate.a @$$($(1)_flags:.flags=.libs)

$(1)/unit/%: $(1)/obj/tests/unit/%.o $(1)/libtollgate.a
	@mkdir -p $$(@D)
	$$(Q)$(2) $$($(3)_link) -o $$@ $$^ -lcmocka @$$($(1)_flags:.flags=.libs)

$(1)/fuzz/%: $(1)/obj/tests/fuzz/%.o $(1)/libtollgate.a
	@mkdir -p $$(@D)
	$$(Q)$(2) $$($(3)_link) -fsanitize=fuzzer -o $$@ $$^ @$$($(1)_flags:.flags=.libs)
endef

$(eval $(call FLAVOUR,$(PLAIN),$(CC),plain))
$(eval $(call FLAVOUR,$(ASAN),$(CC),asan))
$(eval $(call FLAVOUR,$(TSAN),$(CC),tsan))
$(eval $(call FLAVOUR,$(FUZZ),$(CLANG),fuzz))
$(eval $(call FLAVOUR,$(COVER),$(CLANG),cover))

-include $(shell find build -name '*.d' 2>/dev/null)

# Which flags this compiler knows; .flags stands for the .harden, .harden-link and .libs beside it.
build/%.flags: deploy/flags $(if $(filter run test sanitize,$(MAKECMDGOALS)),| deps)$(if $(filter bench,$(MAKECMDGOALS)),| deps-bench)
	@mkdir -p $(@D)
	@deploy/flags $* $(@:.flags=)

# The embedded configuration as one C string.
build/generated/default_yaml.h: config/default.yaml
	@mkdir -p $(@D)
	@{ echo '/* Made from $<. */'; echo 'static const char default_yaml[] ='; \
	   sed -e 's/[\\"]/\\&/g' -e 's/.*/    "&\\n"/' $<; echo '    ;'; } > $@

# The programs at the root of build/ are those of the compiler used last.
$(PROGRAMS:%=build/%): build/%: $(PLAIN)/bin/% FORCE
	@[ $< -ef $@ ] || ln -f $< $@
.PHONY: FORCE
FORCE:

# A disk for tests that fails, is slow or loses its power: loaded before the C library.
build/disk.so: tests/power/shim.c build/$(COMPILER).flags
	@mkdir -p $(@D)
	$(Q)$(CC) @build/$(COMPILER).flags -O2 -fPIC -shared -o $@ $<

# ---- Set-up and running ----

.PHONY: deps deps-bench run stop install clean format
deps:
	@deploy/deps

deps-bench: deps
	@deploy/deps bench

run: deps build/tollgate build/fake
	@DETACH='$(DETACH)' SMALL='$(SMALL)' LARGE='$(LARGE)' exec deploy/run

stop:
	@deploy/run stop

install: build/tollgate
	install -D -m 755 build/tollgate $(DESTDIR)$(PREFIX)/bin/tollgate
	install -D -m 644 config/default.yaml $(DESTDIR)$(PREFIX)/share/tollgate/tollgate.yaml

format:
	clang-format -i $(wildcard $(ROOMS:%=%/*.[ch]) tests/*/*.[ch] bench/*.[ch])

clean:
	rm -rf build

# ---- Suites; each prints its own "N passed, N failed" ----

.PHONY: test unit integration cases sdk fuzz fuzz-planted fuzz-regress sanitize crash power mutations soak lint bench bare cover
suites_unit         := tests/run_unit $(call unit_programs,$(ASAN))
suites_fake         := $(PYTHON) tests/fake/test_fake.py build/fake
suites_integration  := $(PYTHON) tests/integration/run.py --tollgate $(ASAN)/bin/tollgate --fake build/fake
suites_selftest     := $(PYTHON) tests/cases/selftest.py
suites_cases        := $(PYTHON) tests/cases/run.py --tollgate $(ASAN)/bin/tollgate --fake build/fake
suites_sdk          := $(PYTHON) tests/sdk/run.py --tollgate $(ASAN)/bin/tollgate --fake build/fake
suites_fuzz_regress := tests/run_fuzz_regress $(call fuzz_programs,$(FUZZ))
suites_mutations    := $(PYTHON) tests/mutations/run.py --tollgate $(ASAN)/bin/tollgate --fake build/fake \
                       --mutate $(ASAN)/bin/mutate --mutations 400
suites_crash        := $(PYTHON) tests/crash/crash.py --tollgate $(ASAN)/bin/tollgate --fake build/fake \
                       --crashes 50
suites_power        := $(PYTHON) tests/power/power.py --tollgate $(ASAN)/bin/tollgate --fake build/fake \
                       --cuts 20
suites_lint         := CC='$(CC)' CLANG='$(CLANG)' tests/lint/run

unit: $(call unit_programs,$(ASAN))
	@$(suites_unit)

integration: all $(PROGRAMS:%=$(ASAN)/bin/%) build/disk.so
	@$(suites_integration)

cases: all $(PROGRAMS:%=$(ASAN)/bin/%)
	@$(suites_cases)

sdk: all $(PROGRAMS:%=$(ASAN)/bin/%)
	@$(suites_sdk)

fuzz-regress: $(call fuzz_programs,$(FUZZ))
	@$(suites_fuzz_regress)

lint: build/$(COMPILER).flags build/$(notdir $(CLANG)).flags build/generated/default_yaml.h
	@$(suites_lint)

test: deps all $(PROGRAMS:%=$(ASAN)/bin/%) $(call unit_programs,$(ASAN)) $(call fuzz_programs,$(FUZZ)) \
      build/$(notdir $(CLANG)).flags build/disk.so
	@tests/run "unit: $(suites_unit)" "simulated server: $(suites_fake)" \
	    "integration: $(suites_integration)" "case runner: $(suites_selftest)" \
	    "cases: $(suites_cases)" "sdk: $(suites_sdk)" \
	    "crashes: $(suites_crash)" "power cuts: $(suites_power)" "mutations: $(suites_mutations)" \
	    "fuzz regressions: $(suites_fuzz_regress)" "lint: $(suites_lint)"

# ThreadSanitizer is not for one worker: the tests read WORKERS.
sanitize: test $(PROGRAMS:%=$(TSAN)/bin/%) $(call unit_programs,$(TSAN))
	@WORKERS=2 tests/run "units under TSan: tests/run_unit $(call unit_programs,$(TSAN))" \
	    "integration under TSan: $(subst $(ASAN),$(TSAN),$(suites_integration))"

fuzz: $(call fuzz_programs,$(FUZZ))
	@FUZZ_RUNS=$(FUZZ_RUNS) FUZZ_SECONDS=$(FUZZ_SECONDS) tests/run_fuzz $^

# Each target with a fault planted in it, which it must find.
fuzz-planted:
	@tests/run_fuzz_planted

# Lines of each parser that its corpus reaches.
cover: $(call fuzz_programs,$(COVER))
	@tests/run_cover $^

mutations: build/tollgate build/fake build/mutate
	@$(PYTHON) tests/mutations/run.py --mutations $(MUTATIONS) --seed $(SEED)

crash: build/tollgate build/fake
	@$(PYTHON) tests/crash/crash.py --tollgate build/tollgate --fake build/fake --crashes $(CRASHES) --seed $(SEED)

power: build/tollgate build/fake build/disk.so
	@$(PYTHON) tests/power/power.py --tollgate build/tollgate --fake build/fake --cuts $(POWER) --seed $(SEED)

soak: all $(PROGRAMS:%=$(ASAN)/bin/%) $(PROGRAMS:%=$(TSAN)/bin/%)
	@CC='$(CC)' PYTHON='$(PYTHON)' tests/soak/run $(SOAK)

bench: deps-bench all
	@QUICK='$(QUICK)' $(PYTHON) bench/run.py

bare:
	@tests/bare/run

# Before vLLM's CPU build and llama.cpp's server, with a tiny model made here: downloads gigabytes and builds for minutes (docs/compatibility.md).
.PHONY: test-real
test-real: build/tollgate
	@$(PYTHON) tests/real/run.py $(REAL)
