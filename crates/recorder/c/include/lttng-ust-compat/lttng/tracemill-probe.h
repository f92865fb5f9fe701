/* The common part of the probes of all providers. Included once, where <lttng/tracepoint-event.h> makes probes. */
#ifndef TM_LTTNG_PROBE_H
#define TM_LTTNG_PROBE_H

#pragma GCC system_header

#include "../../tracemill/record.h"

#ifdef TM_DISABLE
#error "LTTng's tracepoints need the library: TM_DISABLE is for <tracemill/record.h> alone"
#endif

/* ---- Fields: each public name, by what it has in common with others ---- */

#define LTTNG_UST_TP_FIELDS(...) __VA_ARGS__
#define LTTNG_UST_TP_ENUM_VALUES(...) __VA_ARGS__

#define lttng_ust_field_integer(type, name, value) TM_LTTNG_INTEGER_(type, name, value, 0)
#define lttng_ust_field_integer_hex(type, name, value) TM_LTTNG_INTEGER_(type, name, value, TM_RECORD_HEX_)
#define lttng_ust_field_integer_network(type, name, value) TM_LTTNG_INTEGER_(type, name, value, TM_RECORD_NETWORK_)
#define lttng_ust_field_integer_network_hex(type, name, value) \
    TM_LTTNG_INTEGER_(type, name, value, TM_RECORD_NETWORK_ | TM_RECORD_HEX_)

#define lttng_ust_field_float(type, name, value) TM_LTTNG_FLOAT_(type, name, value)
#define lttng_ust_field_string(name, value) TM_LTTNG_STRING_(name, value)
#define lttng_ust_field_enum(provider, labels, type, name, value) TM_LTTNG_ENUM_(provider, labels, type, name, value)

#define lttng_ust_field_array(type, name, values, count) TM_LTTNG_ARRAY_(type, name, values, count, 0)
#define lttng_ust_field_array_hex(type, name, values, count) TM_LTTNG_ARRAY_(type, name, values, count, TM_RECORD_HEX_)
#define lttng_ust_field_array_network(type, name, values, count) \
    TM_LTTNG_ARRAY_(type, name, values, count, TM_RECORD_NETWORK_)
#define lttng_ust_field_array_network_hex(type, name, values, count) \
    TM_LTTNG_ARRAY_(type, name, values, count, TM_RECORD_NETWORK_ | TM_RECORD_HEX_)
#define lttng_ust_field_array_text(type, name, text, count) TM_LTTNG_ARRAY_TEXT_(type, name, text, count)
#define lttng_ust_field_fixed_length_blob(name, bytes, count, media_type) \
    TM_LTTNG_ARRAY_(uint8_t, name, bytes, count, TM_RECORD_HEX_)

#define lttng_ust_field_sequence(type, name, values, count_type, count) TM_LTTNG_SEQUENCE_(type, name, values, count, 0)
#define lttng_ust_field_sequence_hex(type, name, values, count_type, count) \
    TM_LTTNG_SEQUENCE_(type, name, values, count, TM_RECORD_HEX_)
#define lttng_ust_field_sequence_network(type, name, values, count_type, count) \
    TM_LTTNG_SEQUENCE_(type, name, values, count, TM_RECORD_NETWORK_)
#define lttng_ust_field_sequence_network_hex(type, name, values, count_type, count) \
    TM_LTTNG_SEQUENCE_(type, name, values, count, TM_RECORD_NETWORK_ | TM_RECORD_HEX_)
#define lttng_ust_field_sequence_text(type, name, text, count_type, count) TM_LTTNG_SEQUENCE_TEXT_(type, name, text, count)
#define lttng_ust_field_variable_length_blob(name, bytes, count_type, count, media_type) \
    TM_LTTNG_SEQUENCE_(uint8_t, name, bytes, count, TM_RECORD_HEX_)

/* Fields for LTTng's filters only are not recorded. */
#define lttng_ust_field_unused(value)
#define lttng_ust_field_unused_nowrite(value)
#define lttng_ust_field_integer_nowrite(type, name, value)
#define lttng_ust_field_integer_nowrite_hex(type, name, value)
#define lttng_ust_field_float_nowrite(type, name, value)
#define lttng_ust_field_string_nowrite(name, value)
#define lttng_ust_field_enum_nowrite(provider, labels, type, name, value)
#define lttng_ust_field_array_nowrite(type, name, values, count)
#define lttng_ust_field_array_nowrite_hex(type, name, values, count)
#define lttng_ust_field_array_network_nowrite(type, name, values, count)
#define lttng_ust_field_array_network_nowrite_hex(type, name, values, count)
#define lttng_ust_field_array_text_nowrite(type, name, text, count)
#define lttng_ust_field_fixed_length_blob_nowrite(name, bytes, count, media_type)
#define lttng_ust_field_sequence_nowrite(type, name, values, count_type, count)
#define lttng_ust_field_sequence_nowrite_hex(type, name, values, count_type, count)
#define lttng_ust_field_sequence_network_nowrite(type, name, values, count_type, count)
#define lttng_ust_field_sequence_network_nowrite_hex(type, name, values, count_type, count)
#define lttng_ust_field_sequence_text_nowrite(type, name, text, count_type, count)
#define lttng_ust_field_variable_length_blob_nowrite(name, bytes, count_type, count, media_type)

#define lttng_ust_field_enum_value(label, value) {label, (int64_t)(value), (int64_t)(value), 0},
#define lttng_ust_field_enum_range(label, first, last) {label, (int64_t)(first), (int64_t)(last), 0},
#define lttng_ust_field_enum_auto(label) {label, 0, 0, 1},

#if LTTNG_UST_COMPAT_API(0)
#define TP_FIELDS LTTNG_UST_TP_FIELDS
#define TP_ENUM_VALUES LTTNG_UST_TP_ENUM_VALUES
#define ctf_integer lttng_ust_field_integer
#define ctf_integer_hex lttng_ust_field_integer_hex
#define ctf_integer_network lttng_ust_field_integer_network
#define ctf_integer_network_hex lttng_ust_field_integer_network_hex
#define ctf_integer_nowrite lttng_ust_field_integer_nowrite
#define ctf_float lttng_ust_field_float
#define ctf_float_nowrite lttng_ust_field_float_nowrite
#define ctf_string lttng_ust_field_string
#define ctf_string_nowrite lttng_ust_field_string_nowrite
#define ctf_enum lttng_ust_field_enum
#define ctf_enum_nowrite lttng_ust_field_enum_nowrite
#define ctf_enum_value lttng_ust_field_enum_value
#define ctf_enum_range lttng_ust_field_enum_range
#define ctf_enum_auto lttng_ust_field_enum_auto
#define ctf_array lttng_ust_field_array
#define ctf_array_hex lttng_ust_field_array_hex
#define ctf_array_network lttng_ust_field_array_network
#define ctf_array_network_hex lttng_ust_field_array_network_hex
#define ctf_array_text lttng_ust_field_array_text
#define ctf_array_nowrite lttng_ust_field_array_nowrite
#define ctf_array_nowrite_hex lttng_ust_field_array_nowrite_hex
#define ctf_array_network_nowrite lttng_ust_field_array_network_nowrite
#define ctf_array_network_nowrite_hex lttng_ust_field_array_network_nowrite_hex
#define ctf_array_text_nowrite lttng_ust_field_array_text_nowrite
#define ctf_sequence lttng_ust_field_sequence
#define ctf_sequence_hex lttng_ust_field_sequence_hex
#define ctf_sequence_network lttng_ust_field_sequence_network
#define ctf_sequence_network_hex lttng_ust_field_sequence_network_hex
#define ctf_sequence_text lttng_ust_field_sequence_text
#define ctf_sequence_nowrite lttng_ust_field_sequence_nowrite
#define ctf_sequence_nowrite_hex lttng_ust_field_sequence_nowrite_hex
#define ctf_sequence_network_nowrite lttng_ust_field_sequence_network_nowrite
#define ctf_sequence_network_nowrite_hex lttng_ust_field_sequence_network_nowrite_hex
#define ctf_sequence_text_nowrite lttng_ust_field_sequence_text_nowrite
#define ctf_unused lttng_ust_field_unused
#define ctf_unused_nowrite lttng_ust_field_unused_nowrite
#endif

/* ---- Types ---- */

#ifdef __cplusplus
template <typename T>
struct tm_lttng_type_ {
    static constexpr bool is_integer = __is_enum(T) || (T(1) / 2 == T(0) && sizeof(T) <= 8);
    static constexpr bool is_signed = T(-1) < T(1);
};
template <typename T>
struct tm_lttng_type_<T *> {
    static constexpr bool is_integer = true;
    static constexpr bool is_signed = false;
};
template <typename T>
struct tm_lttng_type_<T *const> : tm_lttng_type_<T *> {};
#define TM_LTTNG_IS_INTEGER_(type) (tm_lttng_type_<type>::is_integer)
#define TM_LTTNG_IS_SIGNED_(type) (tm_lttng_type_<type>::is_signed)
#define TM_LTTNG_CHECK_(condition, message) static_assert(condition, message);
#else
/* A pointer is judged as the integer of its size. */
#define TM_LTTNG_IS_POINTER_(type) (__builtin_classify_type((type)0) == 5)
#define TM_LTTNG_AS_INTEGER_(type) \
    __typeof__(__builtin_choose_expr(TM_LTTNG_IS_POINTER_(type), (uintptr_t)0, (type)0))
/* The classes up to that of pointers are those of integers. */
#define TM_LTTNG_IS_INTEGER_(type) (__builtin_classify_type((type)0) <= 5 && sizeof(type) <= 8)
#define TM_LTTNG_IS_SIGNED_(type) ((TM_LTTNG_AS_INTEGER_(type)) - 1 < (TM_LTTNG_AS_INTEGER_(type))1)
/* Compilers have it in all dialects; for those before C11 the C library puts something without the message in its place. */
#undef _Static_assert
#define TM_LTTNG_CHECK_(condition, message) _Static_assert(condition, message);
#endif

#define TM_LTTNG_PLAIN_INTEGER_(type) ((TM_LTTNG_IS_SIGNED_(type) ? TM_RECORD_SIGNED_ : TM_RECORD_UNSIGNED_) | sizeof(type) * 8)
#define TM_LTTNG_INTEGER_CLASS_(type, properties) \
    (uint32_t)(TM_LTTNG_PLAIN_INTEGER_(type) | TM_RECORD_INTEGER_ | (properties))

/* ---- Events ---- */

/* Makes a tracepoint known, or asks again whether it is on, and gives its state. */
static __attribute__((unused, noinline, cold)) uint32_t tm_lttng_ask_(struct tm_lttng_tracepoint_ *tracepoint) {
    struct tm_record_site_ *const site = &tracepoint->site;
    const struct tm_lttng_probe_ *const probe = tracepoint->probe;
    /* Threads that come here together store the same. */
    __atomic_store_n(&site->fields, probe->fields, __ATOMIC_RELAXED);
    __atomic_store_n(&site->field_count, probe->field_count, __ATOMIC_RELAXED);
    __atomic_store_n(&site->level, probe->level(site->name), __ATOMIC_RELAXED);
    if (!__atomic_exchange_n(&site->is_listed, 1u, __ATOMIC_ACQ_REL)) {
        struct tm_record_site_ *first = __atomic_load_n(tracepoint->known, __ATOMIC_RELAXED);
        do {
            site->next = first;
        } while (!__atomic_compare_exchange_n(tracepoint->known, &first, site, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
    }
    return tm_record_register_(site);
}

/* Keeps a text or list for the time when it is written: it is looked at once. */
TM_RECORD_INLINE_ tm_text *tm_lttng_keep_(tm_text *kept, const void *bytes, size_t len) {
    *kept = tm_record_text_(bytes, bytes ? len : 0);
    return kept + 1;
}

TM_RECORD_INLINE_ tm_text *tm_lttng_keep_text_(const struct tm_record_site_ *site, tm_text *kept, tm_text text) {
    *kept = tm_record_cut_(site, text);
    return kept + 1;
}

TM_RECORD_INLINE_ tm_text *tm_lttng_keep_string_(const struct tm_record_site_ *site, tm_text *kept, const char *string) {
    *kept = tm_record_string_(site, string);
    return kept + 1;
}

/* A number of elements, of which no event has so many that they are not 32 bits. */
TM_RECORD_INLINE_ size_t tm_lttng_count_(size_t count) { return count <= UINT32_MAX ? count : UINT32_MAX; }

TM_RECORD_INLINE_ unsigned char *tm_lttng_put_string_(unsigned char *at, tm_text text) {
    unsigned char *const end = at + text.len;
    unsigned char *zero;
    if (text.len) __builtin_memcpy(at, text.bytes, text.len);
    /* Another thread may have made it shorter: what follows is read from its end on. */
    for (zero = at; TM_RECORD_RARE_((zero = (unsigned char *)memchr(zero, 0, (size_t)(end - zero))) != NULL);) *zero = '#';
    *end = 0;
    return end + 1;
}

/* The text of so many bytes, and zeros behind it. */
TM_RECORD_INLINE_ unsigned char *tm_lttng_put_fixed_text_(unsigned char *at, const char *text, size_t count) {
    const char *const zero = text ? (const char *)memchr(text, 0, count) : text;
    const size_t len = zero ? (size_t)(zero - text) : text ? count : 0;
    if (len) __builtin_memcpy(at, text, len);
    __builtin_memset(at + len, 0, count - len);
    return at + count;
}

TM_RECORD_INLINE_ unsigned char *tm_lttng_put_array_(unsigned char *at, const void *bytes, size_t len) {
    if (bytes) return tm_record_put_(at, bytes, len);
    __builtin_memset(at, 0, len);
    return at + len;
}

TM_RECORD_INLINE_ unsigned char *tm_lttng_put_sequence_(unsigned char *at, tm_text list, size_t size) {
    const uint32_t count = (uint32_t)(list.len / size);
    at = tm_record_put_(at, &count, sizeof count);
    return list.len ? tm_record_put_(at, list.bytes, list.len) : at;
}

#endif
