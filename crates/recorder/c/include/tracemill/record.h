/* Events of C and C++ programs, recorded as CTF by libtracemill_record.
 *
 *     #include <tracemill/record.h>
 *
 *     TM_EVENT(app, request, (tm_u64, id), (tm_str, path))     at file scope: a class of events, and its function
 *
 *     int main(void) {
 *         tm_start(&(tm_options){ .path = "run.ctf", .mode = TM_FLIGHT, .ring_bytes = 16 << 20 });
 *         tm_app_request(7, "/x");
 *         tm_stop();
 *     }
 *
 * C99 to C23, or C++11 to C++23; GCC or Clang, Linux, little endian. Where TM_DISABLE is defined all of it vanishes, and
 * no library is needed.
 *
 * Fields, at most twelve: tm_u8 to tm_u64, tm_i8 to tm_i64, tm_f32, tm_f64, tm_bool; tm_str, a C string, which may be null;
 * tm_text, the bytes of tm_text(pointer, length); tm_bytes(n), a pointer to so many bytes.
 *
 * An event goes into a ring of its thread, a mapped file, without a lock, a system call or an allocation. The first event of
 * a thread and of a class are dearer: they allocate and take a lock. Where events come from signal handlers, record one of
 * each outside of them first. Names that end with an underscore are not for programs.
 */
#ifndef TRACEMILL_RECORD_H
#define TRACEMILL_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record-site.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "rings are little endian, and are written as they are in memory"
#endif

#ifdef __cplusplus
#define TM_RECORD_NOTHROW_ noexcept
extern "C" {
#else
#define TM_RECORD_NOTHROW_ __attribute__((nothrow))
#endif

/* ---- Recording ---- */

/* What happens when a thread's ring is full. */
typedef enum tm_mode {
    TM_STREAM, /* a thread of the recorder moves packets to files; when it is late, events are discarded and counted */
    TM_FLIGHT, /* the oldest packet is written over */
    TM_BLOCK   /* as stream, but who writes waits; not in a signal handler */
} tm_mode;

/* The dialect of CTF. */
typedef enum tm_format {
    TM_CTF2,
    TM_CTF18 /* which babeltrace2 2.0 reads, too */
} tm_format;

/* How serious an event is, for TM_EVENT_AT and for rules such as "app:*@warning". The numbers are LTTng's. */
typedef enum tm_level {
    TM_NO_LEVEL = -1,
    TM_EMERGENCY,
    TM_ALERT,
    TM_CRITICAL,
    TM_ERROR,
    TM_WARNING,
    TM_NOTICE,
    TM_INFO,
    TM_DEBUG,
    TM_DEBUG_PROGRAM,
    TM_DEBUG_PROCESS,
    TM_DEBUG_MODULE,
    TM_DEBUG_UNIT,
    TM_DEBUG_FUNCTION,
    TM_DEBUG_LINE,
    TM_TRACE
} tm_level;

/* How to record. What is 0 is as usual. */
typedef struct tm_options {
    const char *path; /* folder of the trace, which must not exist; %p is the process id */
    tm_mode mode;
    tm_format format;
    uint64_t ring_bytes;   /* of a thread; 1 MiB, or 4 MiB of the mode flight */
    uint64_t packet_bytes; /* a power of two from 4 KiB to 16 MiB; 64 KiB */
    const char *events;    /* "app:*,-app:poll": the last glob that matches decides */
    int64_t flush_ms;      /* how often packets are moved that are not full; 1000, and negative is never */
    uint32_t text_bytes;   /* longest text; 4095 */
    bool sync;             /* packets are brought to the disk when they are moved */
    bool follow_fork;      /* children of fork record as well, each in the folder PATH.PID */
    bool no_control;       /* no socket for commands of `tracemill record --list` and the like */
} tm_options;

/* These return 0, or a negative number of errno. Environment variables win over options; a wrong one is reported on stderr.
 *
 * tm_start: -EBUSY when the process records already, -EINVAL for a wrong option, or what making the folder met.
 * tm_stop: recording ends, and the folder is a plain trace. It also ends with the process.
 * tm_snapshot: copies what is recorded so far to a folder, which must not exist.
 * tm_rotate: finishes the trace, and goes on in another folder; when that cannot be made, in the one before.
 * The last three return -ENOENT when nothing is recorded. A recording that `tracemill record --stop` ended is stopped once more
 * without an error. */
#ifndef TM_DISABLE
int tm_record_start_(const tm_options *options, size_t size) TM_RECORD_NOTHROW_;
int tm_stop(void) TM_RECORD_NOTHROW_;
int tm_snapshot(const char *path) TM_RECORD_NOTHROW_;
int tm_rotate(const char *path) TM_RECORD_NOTHROW_;
/* Events that were discarded so far, or by the recording that was stopped last. */
uint64_t tm_discarded(void) TM_RECORD_NOTHROW_;

static inline __attribute__((unused)) int tm_start(const tm_options *options) {
    return tm_record_start_(options, sizeof *options);
}
#else
#define TM_RECORD_VANISHED_ static inline __attribute__((unused))
TM_RECORD_VANISHED_ int tm_start(const tm_options *options) { return (void)options, 0; }
TM_RECORD_VANISHED_ int tm_stop(void) { return 0; }
TM_RECORD_VANISHED_ int tm_snapshot(const char *path) { return (void)path, 0; }
TM_RECORD_VANISHED_ int tm_rotate(const char *path) { return (void)path, 0; }
TM_RECORD_VANISHED_ uint64_t tm_discarded(void) { return 0; }
#endif

/* ---- Values ---- */

typedef uint8_t tm_u8;
typedef uint16_t tm_u16;
typedef uint32_t tm_u32;
typedef uint64_t tm_u64;
typedef int8_t tm_i8;
typedef int16_t tm_i16;
typedef int32_t tm_i32;
typedef int64_t tm_i64;
typedef float tm_f32;
typedef double tm_f64;
typedef bool tm_bool;
typedef const char *tm_str;
typedef struct tm_text {
    const void *bytes;
    size_t len;
} tm_text;

static inline __attribute__((unused)) tm_text tm_record_text_(const void *bytes, size_t len) {
    tm_text text;
    text.bytes = bytes;
    text.len = len;
    return text;
}

/* A text of bytes that do not end with 0. */
#define tm_text(bytes, len) tm_record_text_((bytes), (len))

#ifndef TM_DISABLE

/* ---- What the library and this header share ---- */

/* The beginning of a thread's writer. */
struct tm_record_thread_ {
    unsigned char *slot; /* the open one */
    uint64_t pos;        /* bytes reserved in it; 2^63 without one */
    uint64_t begin;      /* clock at the first event of the slot */
    uint64_t depth;      /* writers inside of an event: the thread, and its signal handlers */
    uint64_t behind;     /* latest clock of an event of a handler */
    uint64_t others[507];
    uint64_t limit; /* size of a slot; 0 leads to the slow path, as it does in every child process */
};

uint32_t tm_record_register_(const struct tm_record_site_ *site) TM_RECORD_NOTHROW_;
void tm_record_forget_(const struct tm_record_site_ *sites) TM_RECORD_NOTHROW_;
struct tm_record_thread_ *tm_record_writer_(void) TM_RECORD_NOTHROW_;
/* 1, or 0 when the event is not to be written, or 2 when the state of its site is to be read again. */
uint32_t tm_record_room_(uint64_t len, uint64_t clock) TM_RECORD_NOTHROW_;
uint64_t tm_record_clock_(void) TM_RECORD_NOTHROW_;
/* Records an event whose fields are these bytes, and that needs more than to be written. */
void tm_record_special_(const struct tm_record_site_ *site, const void *fields, uint64_t len, const void *frame)
    TM_RECORD_NOTHROW_;
/* Memory that signal handlers may ask for, too. Null when no event is so long, or there is none; the event is counted then. */
void *tm_record_allocate_(uint64_t len) TM_RECORD_NOTHROW_;
void tm_record_free_(void *bytes, uint64_t len) TM_RECORD_NOTHROW_;

/* Offsets in the header of a packet. */
enum { TM_RECORD_END_AT_ = 40, TM_RECORD_CONTENT_AT_ = 48 };

#define TM_RECORD_INLINE_ static inline __attribute__((unused, always_inline))
#define TM_RECORD_RARE_(condition) __builtin_expect(!!(condition), 0)
/* The compiler keeps the order; of one thread and its handlers the processor keeps it anyway. */
#define TM_RECORD_FENCE_() __atomic_signal_fence(__ATOMIC_SEQ_CST)

/* Is it not the number of a class? */
#define TM_RECORD_IS_OTHER_(state) ((state) - 2u > 65532u)

/* The sites of this source file that are known to the library. */
static struct tm_record_site_ *tm_record_sites_ __attribute__((unused));

/* Behind all destructors that may record. */
static __attribute__((destructor(101), unused)) void tm_record_unload_(void) {
    struct tm_record_site_ *const sites = __atomic_load_n(&tm_record_sites_, __ATOMIC_ACQUIRE);
    if (sites) tm_record_forget_(sites);
}

static __attribute__((unused, noinline, cold)) uint32_t tm_record_ask_(struct tm_record_site_ *site) {
    if (!__atomic_exchange_n(&site->is_listed, 1u, __ATOMIC_ACQ_REL)) {
        struct tm_record_site_ *first = __atomic_load_n(&tm_record_sites_, __ATOMIC_RELAXED);
        do {
            site->next = first;
        } while (!__atomic_compare_exchange_n(&tm_record_sites_, &first, site, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
    }
    return tm_record_register_(site);
}

/* Is an event on? */
TM_RECORD_INLINE_ bool tm_record_is_on_(struct tm_record_site_ *site) {
    const uint32_t state = __atomic_load_n(&site->state, __ATOMIC_ACQUIRE);
    return state != 1 && (state != 0 || tm_record_ask_(site) > 1);
}

/* The writer of the calling thread. */
TM_RECORD_INLINE_ struct tm_record_thread_ *tm_record_own_(const struct tm_record_site_ *site) {
    struct tm_record_thread_ *thread = NULL;
#if defined(__x86_64__) && !defined(__ILP32__)
    __asm__ volatile("movq %%fs:(%1), %0" : "=r"(thread) : "r"(site->thread));
#elif defined(__aarch64__) && defined(__LP64__)
    __asm__ volatile("mrs %0, tpidr_el0\n\tldr %0, [%0, %1]" : "=&r"(thread) : "r"(site->thread));
#else
    (void)site;
#endif
    if (TM_RECORD_RARE_(!thread)) thread = tm_record_writer_();
    return thread;
}

TM_RECORD_INLINE_ uint64_t tm_record_now_(const struct tm_record_site_ *site) {
#if defined(__x86_64__)
    if (__builtin_expect(site->has_counter != 0, 1)) return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    if (__builtin_expect(site->has_counter != 0, 1)) {
        uint64_t value;
        __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
        return value;
    }
#else
    (void)site;
#endif
    return tm_record_clock_();
}

/* Replaces a number that only signal handlers of this thread may change meanwhile. */
TM_RECORD_INLINE_ bool tm_record_replace_(uint64_t *number, uint64_t old, uint64_t new_) {
#if defined(__x86_64__)
    bool is_replaced;
    /* One instruction, so handlers come before it or behind; without a lock, since no other thread writes there. */
    __asm__ volatile("cmpxchgq %3, %1" : "=@ccz"(is_replaced), "+m"(*number), "+a"(old) : "r"(new_) : "memory");
    return is_replaced;
#else
    return __atomic_compare_exchange_n(number, &old, new_, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
#endif
}

/* An event that is being written. */
struct tm_record_event_ {
    struct tm_record_thread_ *thread;
    uint64_t depth;
    uint64_t end;
    uint64_t clock;
    unsigned char *at;
};

/* Enters an event and takes its place: as tm_record_room_. */
TM_RECORD_INLINE_ uint32_t tm_record_begin_(const struct tm_record_site_ *site, struct tm_record_thread_ *thread, uint64_t len,
                                        struct tm_record_event_ *event) {
    event->thread = thread;
    event->depth = __atomic_load_n(&thread->depth, __ATOMIC_RELAXED) + 1;
    __atomic_store_n(&thread->depth, event->depth, __ATOMIC_RELAXED);
    TM_RECORD_FENCE_();
    for (;;) {
        /* Place and clock are taken together: an interrupted event reads the clock again. */
        const uint64_t old = __atomic_load_n(&thread->pos, __ATOMIC_RELAXED);
        const uint64_t clock = tm_record_now_(site);
        const bool is_far = ((clock ^ __atomic_load_n(&thread->begin, __ATOMIC_RELAXED)) >> 47) != 0;
        if (TM_RECORD_RARE_(old + len > __atomic_load_n(&thread->limit, __ATOMIC_RELAXED) || is_far)) {
            const uint32_t room = tm_record_room_(len, clock);
            if (room == 1) continue;
            TM_RECORD_FENCE_();
            __atomic_store_n(&thread->depth, event->depth - 1, __ATOMIC_RELAXED);
            return room;
        }
        if (tm_record_replace_(&thread->pos, old, old + len)) {
            TM_RECORD_FENCE_();
            event->end = old + len;
            event->clock = clock;
            event->at = __atomic_load_n(&thread->slot, __ATOMIC_RELAXED) + old;
            return 1;
        }
    }
}

/* Takes the place of an event of so many bytes: as tm_record_room_. */
TM_RECORD_INLINE_ uint32_t tm_record_open_(const struct tm_record_site_ *site, uint64_t len, struct tm_record_event_ *event) {
    struct tm_record_thread_ *const thread = tm_record_own_(site);
    return TM_RECORD_RARE_(!thread) ? 0 : tm_record_begin_(site, thread, len, event);
}

/* The fields of an event that needs more than to be written, or whose class is not known. */
struct tm_record_scratch_ {
    unsigned char *bytes;
    uint64_t len;
    unsigned char few[1024];
};

/* Where they are to be written; null when that is nowhere. */
static inline __attribute__((unused)) unsigned char *tm_record_begin_special_(struct tm_record_scratch_ *scratch, uint64_t len) {
    scratch->len = len;
    scratch->bytes = len <= sizeof scratch->few ? scratch->few : (unsigned char *)tm_record_allocate_(len);
    return scratch->bytes;
}

/* Does with them what is needed. The frame is that of the function that records, or that it has called. */
static inline __attribute__((unused)) void tm_record_end_special_(const struct tm_record_site_ *site,
                                                                  struct tm_record_scratch_ *scratch, const void *frame) {
    tm_record_special_(site, scratch->bytes, scratch->len, frame);
    if (scratch->bytes != scratch->few) tm_record_free_(scratch->bytes, scratch->len);
}

/* Writes the header of an event behind its fields, makes it visible, and leaves it. */
TM_RECORD_INLINE_ void tm_record_end_(const struct tm_record_event_ *event, uint32_t id) {
    struct tm_record_thread_ *const thread = event->thread;
    const uint64_t word = (event->clock & ((UINT64_C(1) << 48) - 1)) | (uint64_t)id << 48;
    __builtin_memcpy(event->at, &word, 8);
    TM_RECORD_FENCE_();
    if (__builtin_expect(event->depth == 1, 1)) {
        unsigned char *const packet = __atomic_load_n(&thread->slot, __ATOMIC_RELAXED);
        const uint64_t end = __atomic_load_n(&thread->pos, __ATOMIC_RELAXED);
        uint64_t last = event->clock;
        if (TM_RECORD_RARE_(end != event->end)) {
            /* Events of handlers stand behind this one, and are later. */
            const uint64_t behind = __atomic_load_n(&thread->behind, __ATOMIC_RELAXED);
            if (behind > last) last = behind;
        }
        __atomic_store_n((uint64_t *)(void *)(packet + TM_RECORD_END_AT_), last, __ATOMIC_RELAXED);
        __atomic_store_n((uint64_t *)(void *)(packet + TM_RECORD_CONTENT_AT_), end * 8, __ATOMIC_RELEASE);
    } else {
        uint64_t known;
        do {
            known = __atomic_load_n(&thread->behind, __ATOMIC_RELAXED);
        } while (known < event->clock && !tm_record_replace_(&thread->behind, known, event->clock));
    }
    /* Before this a handler could switch slots, and what was made visible above would be in the wrong one. */
    TM_RECORD_FENCE_();
    __atomic_store_n(&thread->depth, event->depth - 1, __ATOMIC_RELEASE);
}

/* The part of a text that is recorded, whole characters. */
TM_RECORD_INLINE_ tm_text tm_record_cut_(const struct tm_record_site_ *site, tm_text text) {
    if (!text.bytes) text.len = 0;
    if (TM_RECORD_RARE_(text.len > site->longest_text)) {
        const unsigned char *const bytes = (const unsigned char *)text.bytes;
        size_t at = site->longest_text;
        /* No character is longer than four bytes: what looks so is no text, and is cut where the limit is. */
        for (int steps = 0; steps < 3 && at > 0 && (bytes[at] & 0xC0) == 0x80; steps++) at--;
        text.len = (bytes[at] & 0xC0) == 0x80 ? site->longest_text : at;
    }
    return text;
}

TM_RECORD_INLINE_ tm_text tm_record_string_(const struct tm_record_site_ *site, const char *string) {
    if (!string) string = "(null)";
    return tm_record_cut_(site, tm_record_text_(string, __builtin_strlen(string)));
}

TM_RECORD_INLINE_ tm_text tm_record_bytes_(size_t len, const void *bytes) {
    return tm_record_text_(bytes, bytes ? len : 0);
}

TM_RECORD_INLINE_ unsigned char *tm_record_put_(unsigned char *at, const void *bytes, size_t len) {
    __builtin_memcpy(at, bytes, len);
    return at + len;
}

TM_RECORD_INLINE_ unsigned char *tm_record_put_text_(unsigned char *at, tm_text text) {
    const uint32_t len = (uint32_t)text.len;
    at = tm_record_put_(at, &len, sizeof len);
    return text.len ? tm_record_put_(at, text.bytes, text.len) : at;
}

#endif /* TM_DISABLE */

/* ---- Types of fields: the parameter of the function, the number for the library, and what is kept of a value ---- */

#define tm_record_parameter_tm_u8 tm_u8
#define tm_record_parameter_tm_u16 tm_u16
#define tm_record_parameter_tm_u32 tm_u32
#define tm_record_parameter_tm_u64 tm_u64
#define tm_record_parameter_tm_i8 tm_i8
#define tm_record_parameter_tm_i16 tm_i16
#define tm_record_parameter_tm_i32 tm_i32
#define tm_record_parameter_tm_i64 tm_i64
#define tm_record_parameter_tm_f32 tm_f32
#define tm_record_parameter_tm_f64 tm_f64
#define tm_record_parameter_tm_bool tm_bool
#define tm_record_parameter_tm_str tm_str
#define tm_record_parameter_tm_text tm_text
#define tm_record_parameter_tm_bytes(n) const void *

#define tm_record_class_tm_u8 (TM_RECORD_UNSIGNED_ | 8)
#define tm_record_class_tm_u16 (TM_RECORD_UNSIGNED_ | 16)
#define tm_record_class_tm_u32 (TM_RECORD_UNSIGNED_ | 32)
#define tm_record_class_tm_u64 (TM_RECORD_UNSIGNED_ | 64)
#define tm_record_class_tm_i8 (TM_RECORD_SIGNED_ | 8)
#define tm_record_class_tm_i16 (TM_RECORD_SIGNED_ | 16)
#define tm_record_class_tm_i32 (TM_RECORD_SIGNED_ | 32)
#define tm_record_class_tm_i64 (TM_RECORD_SIGNED_ | 64)
#define tm_record_class_tm_f32 (TM_RECORD_FLOAT_ | 32)
#define tm_record_class_tm_f64 (TM_RECORD_FLOAT_ | 64)
#define tm_record_class_tm_bool TM_RECORD_BOOL_
#define tm_record_class_tm_str TM_RECORD_TEXT_
#define tm_record_class_tm_text TM_RECORD_TEXT_
#define tm_record_class_tm_bytes(n) TM_RECORD_BYTES_
#define tm_record_count_tm_bytes(n) (n)

#define tm_record_kind_tm_u8 number_
#define tm_record_kind_tm_u16 number_
#define tm_record_kind_tm_u32 number_
#define tm_record_kind_tm_u64 number_
#define tm_record_kind_tm_i8 number_
#define tm_record_kind_tm_i16 number_
#define tm_record_kind_tm_i32 number_
#define tm_record_kind_tm_i64 number_
#define tm_record_kind_tm_f32 number_
#define tm_record_kind_tm_f64 number_
#define tm_record_kind_tm_bool number_
#define tm_record_kind_tm_str string_
#define tm_record_kind_tm_text text_
#define tm_record_kind_tm_bytes(n) bytes_

#define TM_RECORD_KEEP_number_(type, name) const type tm_record_##name = name;
#define TM_RECORD_KEEP_string_(type, name) const tm_text tm_record_##name = tm_record_string_(tm_record_site, name);
#define TM_RECORD_KEEP_text_(type, name) const tm_text tm_record_##name = tm_record_cut_(tm_record_site, name);
#define TM_RECORD_KEEP_bytes_(type, name) \
    const tm_text tm_record_##name = tm_record_bytes_(tm_record_count_##type, name);

#define TM_RECORD_LEN_number_(name) sizeof tm_record_##name
#define TM_RECORD_LEN_string_(name) (sizeof(uint32_t) + tm_record_##name.len)
#define TM_RECORD_LEN_text_ TM_RECORD_LEN_string_
#define TM_RECORD_LEN_bytes_ TM_RECORD_LEN_string_

#define TM_RECORD_PUT_number_(name) tm_record_at = tm_record_put_(tm_record_at, &tm_record_##name, sizeof tm_record_##name);
#define TM_RECORD_PUT_string_(name) tm_record_at = tm_record_put_text_(tm_record_at, tm_record_##name);
#define TM_RECORD_PUT_text_ TM_RECORD_PUT_string_
#define TM_RECORD_PUT_bytes_ TM_RECORD_PUT_string_

/* ---- The macro ---- */

#define TM_RECORD_PASTE_(a, b) a##b
#define TM_RECORD_CAT_(a, b) TM_RECORD_PASTE_(a, b)

/* For each field: `TM_RECORD_X_ (type, name)` is a macro and its arguments. */
#define TM_RECORD_FIRST_PARAMETER_(type, name) tm_record_parameter_##type name
#define TM_RECORD_PARAMETER_(type, name) , tm_record_parameter_##type name
#define TM_RECORD_FIELD_(type, name) {#name, tm_record_class_##type, 0, NULL},
#define TM_RECORD_KEEP_(type, name) TM_RECORD_CAT_(TM_RECORD_KEEP_, tm_record_kind_##type)(type, name)
#define TM_RECORD_LEN_(type, name) +TM_RECORD_CAT_(TM_RECORD_LEN_, tm_record_kind_##type)(name)
#define TM_RECORD_PUT_(type, name) TM_RECORD_CAT_(TM_RECORD_PUT_, tm_record_kind_##type)(name)
#define TM_RECORD_IGNORE_(type, name) (void)name;
#define TM_RECORD_FIRST_ARGUMENT_(type, name) name
#define TM_RECORD_ARGUMENT_(type, name) , name

/* EACH(for none, for each, for the first, target, event, fields...) */
#define TM_RECORD_EACH_0_(none, each, first, t, e) none
#define TM_RECORD_EACH_1_(none, each, first, t, e, f1) first f1
#define TM_RECORD_EACH_2_(none, each, first, t, e, f1, f2) \
    first f1 each f2
#define TM_RECORD_EACH_3_(none, each, first, t, e, f1, f2, f3) \
    first f1 each f2 each f3
#define TM_RECORD_EACH_4_(none, each, first, t, e, f1, f2, f3, f4) \
    first f1 each f2 each f3 each f4
#define TM_RECORD_EACH_5_(none, each, first, t, e, f1, f2, f3, f4, f5) \
    first f1 each f2 each f3 each f4 each f5
#define TM_RECORD_EACH_6_(none, each, first, t, e, f1, f2, f3, f4, f5, f6) \
    first f1 each f2 each f3 each f4 each f5 each f6
#define TM_RECORD_EACH_7_(none, each, first, t, e, f1, f2, f3, f4, f5, f6, f7) \
    first f1 each f2 each f3 each f4 each f5 each f6 each f7
#define TM_RECORD_EACH_8_(none, each, first, t, e, f1, f2, f3, f4, f5, f6, f7, f8) \
    first f1 each f2 each f3 each f4 each f5 each f6 each f7 each f8
#define TM_RECORD_EACH_9_(none, each, first, t, e, f1, f2, f3, f4, f5, f6, f7, f8, f9) \
    first f1 each f2 each f3 each f4 each f5 each f6 each f7 each f8 each f9
#define TM_RECORD_EACH_10_(none, each, first, t, e, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10) \
    first f1 each f2 each f3 each f4 each f5 each f6 each f7 each f8 each f9 each f10
#define TM_RECORD_EACH_11_(none, each, first, t, e, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11) \
    first f1 each f2 each f3 each f4 each f5 each f6 each f7 each f8 each f9 each f10 each f11
#define TM_RECORD_EACH_12_(none, each, first, t, e, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12) \
    first f1 each f2 each f3 each f4 each f5 each f6 each f7 each f8 each f9 each f10 each f11 each f12

#define TM_RECORD_COUNT_(...) TM_RECORD_PLACE_15_(__VA_ARGS__, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0)
#define TM_RECORD_PLACE_15_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, count, ...) count
#define TM_RECORD_TARGET_(target, ...) target
#define TM_RECORD_NAME_(target, event, ...) event
/* Between the two, the names that were picked are expanded. */
#define TM_RECORD_EVENT_(count, level, target, event, ...) TM_RECORD_DEFINE_(count, level, target, event, __VA_ARGS__)

#ifndef TM_DISABLE
#define TM_RECORD_DEFINE_(count, level, target, event, ...) \
    static const struct tm_record_field_ tm_record_fields_##target##_##event[] = { \
        TM_RECORD_EACH_##count##_(, TM_RECORD_FIELD_, TM_RECORD_FIELD_, __VA_ARGS__){NULL, 0, 0, NULL}}; \
    static struct tm_record_site_ tm_record_site_##target##_##event = { \
        0, 0, 0, 0, count, #target, #event, tm_record_fields_##target##_##event, NULL, 0, level}; \
    static __attribute__((unused, noinline, cold)) void tm_record_special_##target##_##event( \
        TM_RECORD_EACH_##count##_(void, TM_RECORD_PARAMETER_, TM_RECORD_FIRST_PARAMETER_, __VA_ARGS__)) { \
        struct tm_record_site_ *const tm_record_site = &tm_record_site_##target##_##event; \
        if (!tm_record_is_on_(tm_record_site)) return; \
        TM_RECORD_EACH_##count##_(, TM_RECORD_KEEP_, TM_RECORD_KEEP_, __VA_ARGS__) \
        const uint64_t tm_record_len = 0 TM_RECORD_EACH_##count##_(, TM_RECORD_LEN_, TM_RECORD_LEN_, __VA_ARGS__); \
        struct tm_record_scratch_ tm_record_scratch; \
        unsigned char *tm_record_at = tm_record_begin_special_(&tm_record_scratch, tm_record_len); \
        if (!tm_record_at) return; \
        TM_RECORD_EACH_##count##_(, TM_RECORD_PUT_, TM_RECORD_PUT_, __VA_ARGS__) \
        (void)tm_record_at; \
        tm_record_end_special_(tm_record_site, &tm_record_scratch, __builtin_frame_address(0)); \
    } \
    static inline __attribute__((unused)) void tm_##target##_##event( \
        TM_RECORD_EACH_##count##_(void, TM_RECORD_PARAMETER_, TM_RECORD_FIRST_PARAMETER_, __VA_ARGS__)) { \
        struct tm_record_site_ *const tm_record_site = &tm_record_site_##target##_##event; \
        const uint32_t tm_record_state = __atomic_load_n(&tm_record_site->state, __ATOMIC_ACQUIRE); \
        /* What is off should cost least. */ \
        if (__builtin_expect(tm_record_state == 1, 1)) return; \
        if (TM_RECORD_RARE_(TM_RECORD_IS_OTHER_(tm_record_state))) { \
            tm_record_special_##target##_##event( \
                TM_RECORD_EACH_##count##_(, TM_RECORD_ARGUMENT_, TM_RECORD_FIRST_ARGUMENT_, __VA_ARGS__)); \
            return; \
        } \
        TM_RECORD_EACH_##count##_(, TM_RECORD_KEEP_, TM_RECORD_KEEP_, __VA_ARGS__) \
        const uint64_t tm_record_len = 8 TM_RECORD_EACH_##count##_(, TM_RECORD_LEN_, TM_RECORD_LEN_, __VA_ARGS__); \
        struct tm_record_event_ tm_record_event; \
        const uint32_t tm_record_room = tm_record_open_(tm_record_site, tm_record_len, &tm_record_event); \
        if (TM_RECORD_RARE_(tm_record_room != 1)) { \
            if (tm_record_room == 2) \
                tm_record_special_##target##_##event( \
                    TM_RECORD_EACH_##count##_(, TM_RECORD_ARGUMENT_, TM_RECORD_FIRST_ARGUMENT_, __VA_ARGS__)); \
            return; \
        } \
        unsigned char *tm_record_at = tm_record_event.at + 8; \
        TM_RECORD_EACH_##count##_(, TM_RECORD_PUT_, TM_RECORD_PUT_, __VA_ARGS__) \
        (void)tm_record_at; \
        tm_record_end_(&tm_record_event, tm_record_state - 2); \
    }
#else
#define TM_RECORD_DEFINE_(count, level, target, event, ...) \
    TM_RECORD_VANISHED_ void tm_##target##_##event( \
        TM_RECORD_EACH_##count##_(void, TM_RECORD_PARAMETER_, TM_RECORD_FIRST_PARAMETER_, __VA_ARGS__)) { \
        TM_RECORD_EACH_##count##_(, TM_RECORD_IGNORE_, TM_RECORD_IGNORE_, __VA_ARGS__) \
    }
#endif

/* A class of events: TM_EVENT(target, name, (type, field), ...) at file scope defines the function tm_TARGET_NAME, which
 * records an event TARGET:NAME. Several source files may say the same. */
#define TM_EVENT(...) TM_EVENT_AT(TM_NO_LEVEL, __VA_ARGS__)

/* As TM_EVENT, of events with a level: TM_EVENT_AT(TM_WARNING, target, name, (type, field), ...) */
#define TM_EVENT_AT(level, ...) \
    TM_RECORD_EVENT_(TM_RECORD_COUNT_(__VA_ARGS__), level, TM_RECORD_TARGET_(__VA_ARGS__, 0), TM_RECORD_NAME_(__VA_ARGS__, 0), \
                     __VA_ARGS__)

#ifdef __cplusplus
}
#endif

#endif
