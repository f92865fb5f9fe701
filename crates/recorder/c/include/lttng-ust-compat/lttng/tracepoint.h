/* LTTng's tracepoints, recorded by libtracemill_record in place of LTTng-UST.
 *
 * Compile a program with this folder before others (-I .../lttng-ust-compat) and link it with libtracemill_record. Its
 * providers, calls and macros stay as they are. In short:
 *
 *     every file that includes a provider         declares its tracepoints
 *     a file with LTTNG_UST_TRACEPOINT_DEFINE     also has their states
 *     one with LTTNG_UST_TRACEPOINT_CREATE_PROBES also has what writes their events (<lttng/tracepoint-event.h>)
 *
 * A tracepoint that is off costs a load and a branch, and its arguments are not evaluated. C99 to C23 with GNU extensions,
 * C++11 to C++23; GCC or Clang. Names that begin with tm_lttng_ or TM_LTTNG_ are not for programs. */
#ifndef TM_LTTNG_TRACEPOINT_H
#define TM_LTTNG_TRACEPOINT_H

/* The text that providers expand to gets no warnings, as with LTTng's own header. */
#pragma GCC system_header

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "../../tracemill/record-site.h"

/* Version 0 of the interface has the names that were there before 2.13, too. */
#ifndef LTTNG_UST_COMPAT_API_VERSION
#define LTTNG_UST_COMPAT_API_VERSION 0
#endif
#define LTTNG_UST_COMPAT_API(version) (LTTNG_UST_COMPAT_API_VERSION <= (version))

#ifdef __cplusplus
#define TM_LTTNG_EXTERN_ extern "C"
#else
#define TM_LTTNG_EXTERN_ extern
#endif

#define TM_LTTNG_PASTE_(a, b) a##b
#define TM_LTTNG_CAT_(a, b) TM_LTTNG_PASTE_(a, b)
/* Keeps what has commas one argument until it is expanded. */
#define TM_LTTNG_PARAMS_(...) __VA_ARGS__

/* ---- Shared by a program and its probes ---- */

struct tm_lttng_tracepoint_;

/* Writes the events of a tracepoint. */
struct tm_lttng_probe_ {
    const struct tm_record_field_ *fields;
    uint32_t field_count;
    int32_t (*level)(const char *name);
    void (*record)(void); /* takes the tracepoint and its arguments */
    uint32_t (*ask)(struct tm_lttng_tracepoint_ *tracepoint);
    void (*forget)(const struct tm_record_site_ *sites);
};

/* A tracepoint. It begins with its state. */
struct tm_lttng_tracepoint_ {
    struct tm_record_site_ site;
    const struct tm_lttng_probe_ *probe; /* null where its probe is not loaded */
    struct tm_record_site_ **known;      /* those of the same source file that the library knows */
};

static inline __attribute__((unused)) bool tm_lttng_is_on_(struct tm_lttng_tracepoint_ *tracepoint) {
    const uint32_t state = __atomic_load_n(&tracepoint->site.state, __ATOMIC_ACQUIRE);
    if (__builtin_expect(state != 0, 1)) return state != 1;
    return tracepoint->probe && tracepoint->probe->ask(tracepoint) > 1;
}

/* ---- Arguments: pairs of a type and a name, at most ten ---- */

#define LTTNG_UST_TP_ARGS(...) __VA_ARGS__

/* Without arguments it is 1: there is an empty one, or `void`. */
#define TM_LTTNG_COUNT_(...) \
    TM_LTTNG_PLACE_21_(__VA_ARGS__, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define TM_LTTNG_PLACE_21_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, count, ...) count

/* As parameters, each after a comma. */
#define TM_LTTNG_PARAMETERS_(...) TM_LTTNG_CAT_(TM_LTTNG_PARAMETERS_, TM_LTTNG_COUNT_(__VA_ARGS__))(__VA_ARGS__)
#define TM_LTTNG_PARAMETERS_1(a)
#define TM_LTTNG_PARAMETERS_2(type, name) , type name __attribute__((unused))
#define TM_LTTNG_PARAMETERS_4(type, name, ...) TM_LTTNG_PARAMETERS_2(type, name) TM_LTTNG_PARAMETERS_2(__VA_ARGS__)
#define TM_LTTNG_PARAMETERS_6(type, name, ...) TM_LTTNG_PARAMETERS_2(type, name) TM_LTTNG_PARAMETERS_4(__VA_ARGS__)
#define TM_LTTNG_PARAMETERS_8(type, name, ...) TM_LTTNG_PARAMETERS_2(type, name) TM_LTTNG_PARAMETERS_6(__VA_ARGS__)
#define TM_LTTNG_PARAMETERS_10(type, name, ...) TM_LTTNG_PARAMETERS_2(type, name) TM_LTTNG_PARAMETERS_8(__VA_ARGS__)
#define TM_LTTNG_PARAMETERS_12(type, name, ...) TM_LTTNG_PARAMETERS_2(type, name) TM_LTTNG_PARAMETERS_10(__VA_ARGS__)
#define TM_LTTNG_PARAMETERS_14(type, name, ...) TM_LTTNG_PARAMETERS_2(type, name) TM_LTTNG_PARAMETERS_12(__VA_ARGS__)
#define TM_LTTNG_PARAMETERS_16(type, name, ...) TM_LTTNG_PARAMETERS_2(type, name) TM_LTTNG_PARAMETERS_14(__VA_ARGS__)
#define TM_LTTNG_PARAMETERS_18(type, name, ...) TM_LTTNG_PARAMETERS_2(type, name) TM_LTTNG_PARAMETERS_16(__VA_ARGS__)
#define TM_LTTNG_PARAMETERS_20(type, name, ...) TM_LTTNG_PARAMETERS_2(type, name) TM_LTTNG_PARAMETERS_18(__VA_ARGS__)

/* Their names, each after a comma. */
#define TM_LTTNG_NAMES_(...) TM_LTTNG_CAT_(TM_LTTNG_NAMES_, TM_LTTNG_COUNT_(__VA_ARGS__))(__VA_ARGS__)
#define TM_LTTNG_NAMES_1(a)
#define TM_LTTNG_NAMES_2(type, name) , name
#define TM_LTTNG_NAMES_4(type, name, ...) , name TM_LTTNG_NAMES_2(__VA_ARGS__)
#define TM_LTTNG_NAMES_6(type, name, ...) , name TM_LTTNG_NAMES_4(__VA_ARGS__)
#define TM_LTTNG_NAMES_8(type, name, ...) , name TM_LTTNG_NAMES_6(__VA_ARGS__)
#define TM_LTTNG_NAMES_10(type, name, ...) , name TM_LTTNG_NAMES_8(__VA_ARGS__)
#define TM_LTTNG_NAMES_12(type, name, ...) , name TM_LTTNG_NAMES_10(__VA_ARGS__)
#define TM_LTTNG_NAMES_14(type, name, ...) , name TM_LTTNG_NAMES_12(__VA_ARGS__)
#define TM_LTTNG_NAMES_16(type, name, ...) , name TM_LTTNG_NAMES_14(__VA_ARGS__)
#define TM_LTTNG_NAMES_18(type, name, ...) , name TM_LTTNG_NAMES_16(__VA_ARGS__)
#define TM_LTTNG_NAMES_20(type, name, ...) , name TM_LTTNG_NAMES_18(__VA_ARGS__)

/* Their types, each after a comma. */
#define TM_LTTNG_TYPES_(...) TM_LTTNG_CAT_(TM_LTTNG_TYPES_, TM_LTTNG_COUNT_(__VA_ARGS__))(__VA_ARGS__)
#define TM_LTTNG_TYPES_1(a)
#define TM_LTTNG_TYPES_2(type, name) , type
#define TM_LTTNG_TYPES_4(type, name, ...) , type TM_LTTNG_TYPES_2(__VA_ARGS__)
#define TM_LTTNG_TYPES_6(type, name, ...) , type TM_LTTNG_TYPES_4(__VA_ARGS__)
#define TM_LTTNG_TYPES_8(type, name, ...) , type TM_LTTNG_TYPES_6(__VA_ARGS__)
#define TM_LTTNG_TYPES_10(type, name, ...) , type TM_LTTNG_TYPES_8(__VA_ARGS__)
#define TM_LTTNG_TYPES_12(type, name, ...) , type TM_LTTNG_TYPES_10(__VA_ARGS__)
#define TM_LTTNG_TYPES_14(type, name, ...) , type TM_LTTNG_TYPES_12(__VA_ARGS__)
#define TM_LTTNG_TYPES_16(type, name, ...) , type TM_LTTNG_TYPES_14(__VA_ARGS__)
#define TM_LTTNG_TYPES_18(type, name, ...) , type TM_LTTNG_TYPES_16(__VA_ARGS__)
#define TM_LTTNG_TYPES_20(type, name, ...) , type TM_LTTNG_TYPES_18(__VA_ARGS__)

/* ---- Calls ---- */

/* 1 when more than a provider and a name are given: pedantic compilers want something where `...` stands. */
#define TM_LTTNG_HAS_VALUES_(...) TM_LTTNG_PLACE_13_(__VA_ARGS__, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0)
#define TM_LTTNG_PLACE_13_(a, b, c, d, e, f, g, h, i, j, k, l, answer, ...) answer

#define TM_LTTNG_DO_0(provider, name) tm_lttng_call_##provider##___##name(&tm_lttng_tracepoint_##provider##___##name)
#define TM_LTTNG_DO_1(provider, name, ...) \
    tm_lttng_call_##provider##___##name(&tm_lttng_tracepoint_##provider##___##name, __VA_ARGS__)
/* A tracepoint that is off should cost least. */
#define TM_LTTNG_IS_ON_(provider, name) \
    (__builtin_expect(__atomic_load_n(&tm_lttng_tracepoint_##provider##___##name.site.state, __ATOMIC_RELAXED) != 1, 0) && \
     tm_lttng_is_on_(&tm_lttng_tracepoint_##provider##___##name))
#define TM_LTTNG_CALL_0(provider, name) \
    do { \
        if (TM_LTTNG_IS_ON_(provider, name)) TM_LTTNG_DO_0(provider, name); \
    } while (0)
#define TM_LTTNG_CALL_1(provider, name, ...) \
    do { \
        if (TM_LTTNG_IS_ON_(provider, name)) TM_LTTNG_DO_1(provider, name, __VA_ARGS__); \
    } while (0)

/* lttng_ust_tracepoint(provider, name, values...) records an event, when it is on. */
#define lttng_ust_tracepoint(...) TM_LTTNG_CAT_(TM_LTTNG_CALL_, TM_LTTNG_HAS_VALUES_(__VA_ARGS__))(__VA_ARGS__)
/* The same, for programs that have asked lttng_ust_tracepoint_enabled. */
#define lttng_ust_do_tracepoint(...) TM_LTTNG_CAT_(TM_LTTNG_DO_, TM_LTTNG_HAS_VALUES_(__VA_ARGS__))(__VA_ARGS__)
#define lttng_ust_tracepoint_enabled(provider, name) TM_LTTNG_IS_ON_(provider, name)

/* ---- A provider where its probes are not made ---- */

#ifdef LTTNG_UST_TRACEPOINT_HIDDEN_DEFINITION
#define TM_LTTNG_VISIBLE_ __attribute__((visibility("hidden")))
#else
#define TM_LTTNG_VISIBLE_ __attribute__((visibility("default")))
#endif
#ifdef LTTNG_UST_TRACEPOINT_PROVIDER_HIDDEN_DEFINITION
#define TM_LTTNG_PROBE_VISIBLE_ __attribute__((visibility("hidden")))
#else
#define TM_LTTNG_PROBE_VISIBLE_ __attribute__((visibility("default")))
#endif

#define TM_LTTNG_DECLARE_(provider, name, ...) \
    TM_LTTNG_EXTERN_ struct tm_lttng_tracepoint_ tm_lttng_tracepoint_##provider##___##name TM_LTTNG_VISIBLE_; \
    TM_LTTNG_EXTERN_ const struct tm_lttng_probe_ tm_lttng_probe_##provider##___##name TM_LTTNG_PROBE_VISIBLE_; \
    static inline __attribute__((unused)) void tm_lttng_call_##provider##___##name( \
        struct tm_lttng_tracepoint_ *tm_lttng_it_ TM_LTTNG_PARAMETERS_(__VA_ARGS__)) { \
        const struct tm_lttng_probe_ *const tm_lttng_probe_ = tm_lttng_it_->probe; \
        if (tm_lttng_probe_) \
            ((void (*)(struct tm_lttng_tracepoint_ *TM_LTTNG_TYPES_(__VA_ARGS__)))tm_lttng_probe_->record)( \
                tm_lttng_it_ TM_LTTNG_NAMES_(__VA_ARGS__)); \
    }

enum lttng_ust_tracepoint_loglevel {
    LTTNG_UST_TRACEPOINT_LOGLEVEL_EMERG = 0,
    LTTNG_UST_TRACEPOINT_LOGLEVEL_ALERT = 1,
    LTTNG_UST_TRACEPOINT_LOGLEVEL_CRIT = 2,
    LTTNG_UST_TRACEPOINT_LOGLEVEL_ERR = 3,
    LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING = 4,
    LTTNG_UST_TRACEPOINT_LOGLEVEL_NOTICE = 5,
    LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO = 6,
    LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_SYSTEM = 7,
    LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_PROGRAM = 8,
    LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_PROCESS = 9,
    LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_MODULE = 10,
    LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_UNIT = 11,
    LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_FUNCTION = 12,
    LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_LINE = 13, /* where a provider names none */
    LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG = 14
};

#if LTTNG_UST_COMPAT_API(0)
#define tracepoint lttng_ust_tracepoint
#define do_tracepoint lttng_ust_do_tracepoint
#define tracepoint_enabled lttng_ust_tracepoint_enabled
#define TP_ARGS LTTNG_UST_TP_ARGS
#define TRACEPOINT_EVENT LTTNG_UST_TRACEPOINT_EVENT
#define TRACEPOINT_EVENT_CLASS LTTNG_UST_TRACEPOINT_EVENT_CLASS
/* Before 2.13 an instance had the provider of its class. */
#define TRACEPOINT_EVENT_INSTANCE(provider, template_name, name, args) \
    LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(provider, template_name, provider, name, TM_LTTNG_PARAMS_(args))
#define TRACEPOINT_ENUM LTTNG_UST_TRACEPOINT_ENUM
#define TRACEPOINT_LOGLEVEL LTTNG_UST_TRACEPOINT_LOGLEVEL
#define TRACEPOINT_MODEL_EMF_URI LTTNG_UST_TRACEPOINT_MODEL_EMF_URI
#define TRACE_EMERG LTTNG_UST_TRACEPOINT_LOGLEVEL_EMERG
#define TRACE_ALERT LTTNG_UST_TRACEPOINT_LOGLEVEL_ALERT
#define TRACE_CRIT LTTNG_UST_TRACEPOINT_LOGLEVEL_CRIT
#define TRACE_ERR LTTNG_UST_TRACEPOINT_LOGLEVEL_ERR
#define TRACE_WARNING LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING
#define TRACE_NOTICE LTTNG_UST_TRACEPOINT_LOGLEVEL_NOTICE
#define TRACE_INFO LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO
#define TRACE_DEBUG_SYSTEM LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_SYSTEM
#define TRACE_DEBUG_PROGRAM LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_PROGRAM
#define TRACE_DEBUG_PROCESS LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_PROCESS
#define TRACE_DEBUG_MODULE LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_MODULE
#define TRACE_DEBUG_UNIT LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_UNIT
#define TRACE_DEBUG_FUNCTION LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_FUNCTION
#define TRACE_DEBUG_LINE LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_LINE
#define TRACE_DEBUG LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG
#endif

#endif /* TM_LTTNG_TRACEPOINT_H */

/* ---- Not once, but each time: a source file may ask for definitions after it was included ---- */

#if LTTNG_UST_COMPAT_API(0)
#if defined(TRACEPOINT_DEFINE) && !defined(LTTNG_UST_TRACEPOINT_DEFINE)
#define LTTNG_UST_TRACEPOINT_DEFINE
#endif
#if defined(TRACEPOINT_PROBE_DYNAMIC_LINKAGE) && !defined(LTTNG_UST_TRACEPOINT_PROBE_DYNAMIC_LINKAGE)
#define LTTNG_UST_TRACEPOINT_PROBE_DYNAMIC_LINKAGE
#endif
#endif

#if defined(LTTNG_UST_TRACEPOINT_DEFINE) && !defined(TM_LTTNG_DEFINES_)
#define TM_LTTNG_DEFINES_

/* The tracepoints of this source file that the library knows. */
static struct tm_record_site_ *tm_lttng_known_ __attribute__((unused));

/* Behind all destructors that may record. */
static __attribute__((destructor(101), unused)) void tm_lttng_unload_(void) {
    struct tm_record_site_ *const sites = __atomic_load_n(&tm_lttng_known_, __ATOMIC_ACQUIRE);
    if (sites) ((struct tm_lttng_tracepoint_ *)(void *)sites)->probe->forget(sites);
}

#ifdef LTTNG_UST_TRACEPOINT_PROBE_DYNAMIC_LINKAGE
/* The probe is in a library that was loaded with the program (LD_PRELOAD, say), or nowhere: then it is off for ever. */
static __attribute__((unused)) void tm_lttng_find_(struct tm_lttng_tracepoint_ *tracepoint, const char *probe) {
    void *const all = dlopen(NULL, RTLD_NOW);
    if (all) {
        tracepoint->probe = (const struct tm_lttng_probe_ *)dlsym(all, probe);
        dlclose(all);
    }
    if (!tracepoint->probe) __atomic_store_n(&tracepoint->site.state, 1u, __ATOMIC_RELEASE);
}

#define TM_LTTNG_PROBE_OF_(provider, name) NULL
#define TM_LTTNG_FIND_(provider, name) \
    static __attribute__((constructor(101), unused)) void tm_lttng_find_##provider##___##name(void) { \
        tm_lttng_find_(&tm_lttng_tracepoint_##provider##___##name, "tm_lttng_probe_" #provider "___" #name); \
    }
#else
#define TM_LTTNG_PROBE_OF_(provider, name) &tm_lttng_probe_##provider##___##name
#define TM_LTTNG_FIND_(provider, name)
#endif

#undef TM_LTTNG_DEFINE_
#define TM_LTTNG_DEFINE_(provider, name) \
    struct tm_lttng_tracepoint_ tm_lttng_tracepoint_##provider##___##name = { \
        {0, 0, 0, 0, 0, #provider, #name, NULL, NULL, 0, -1}, TM_LTTNG_PROBE_OF_(provider, name), &tm_lttng_known_}; \
    TM_LTTNG_FIND_(provider, name)
#endif

#ifndef TM_LTTNG_DEFINE_
#define TM_LTTNG_DEFINE_(provider, name)
#endif

/* Between the passes of <lttng/tracepoint-event.h>, a provider includes this file, too. */
#ifndef LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ
#include "tracemill-declare.h"
#endif
