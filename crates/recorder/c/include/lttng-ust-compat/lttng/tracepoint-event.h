/* The end of a provider. In the source file that asks for its probes, the provider is included again here: once for each
 * thing that its events need. */

#pragma GCC system_header

#include "tracepoint.h"

#if LTTNG_UST_COMPAT_API(0)
#if defined(TRACEPOINT_CREATE_PROBES) && !defined(LTTNG_UST_TRACEPOINT_CREATE_PROBES)
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#endif
#endif

#ifdef LTTNG_UST_TRACEPOINT_CREATE_PROBES

#include "tracemill-probe.h"

/* It includes this file at its end. */
#undef LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ
#if LTTNG_UST_COMPAT_API(0)
#undef TRACEPOINT_CREATE_PROBES
#define TRACEPOINT_HEADER_MULTI_READ
/* The provider in the new names that came before it has left no header. */
#if defined(TRACEPOINT_INCLUDE) && !defined(LTTNG_UST_TRACEPOINT_INCLUDE)
#define LTTNG_UST_TRACEPOINT_INCLUDE TRACEPOINT_INCLUDE
#ifdef TRACEPOINT_PROVIDER
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#endif
#endif
#if defined(TRACEPOINT_PROVIDER) && !defined(LTTNG_UST_TRACEPOINT_PROVIDER)
#define LTTNG_UST_TRACEPOINT_PROVIDER TRACEPOINT_PROVIDER
#define TM_LTTNG_OLD_PROVIDER_
#endif
#endif

#ifndef LTTNG_UST_TRACEPOINT_INCLUDE
#error "a provider names its own header: LTTNG_UST_TRACEPOINT_INCLUDE or TRACEPOINT_INCLUDE (TRACEPOINT_INCLUDE_FILE is not supported)"
#endif
#ifndef LTTNG_UST_TRACEPOINT_PROVIDER
#error "a provider has a name: LTTNG_UST_TRACEPOINT_PROVIDER or TRACEPOINT_PROVIDER"
#endif

/* ---- The labels of enumerations ---- */

#include "tracemill-reset.h"
#undef LTTNG_UST_TRACEPOINT_ENUM
#define LTTNG_UST_TRACEPOINT_ENUM(provider, name, values) \
    static const struct tm_record_label_ tm_lttng_labels_##provider##___##name[] __attribute__((unused)) = { \
        values{NULL, 0, 0, 0}};
#include LTTNG_UST_TRACEPOINT_INCLUDE

/* ---- Levels ---- */

/* A function, since the provider may include headers that define a type again. */
#include "tracemill-reset.h"
#undef LTTNG_UST_TRACEPOINT_LOGLEVEL
#define LTTNG_UST_TRACEPOINT_LOGLEVEL(provider, name, level) \
    if (strcmp(tm_lttng_name_, #name) == 0) return (int32_t)(level);
static __attribute__((unused, noinline, cold)) int32_t TM_LTTNG_CAT_(tm_lttng_level_, LTTNG_UST_TRACEPOINT_PROVIDER)(
    const char *tm_lttng_name_ __attribute__((unused))) {
#include LTTNG_UST_TRACEPOINT_INCLUDE
    return LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_LINE;
}

/* ---- The fields of classes ---- */

#include "tracemill-reset.h"
#undef TM_LTTNG_INTEGER_
#undef TM_LTTNG_FLOAT_
#undef TM_LTTNG_STRING_
#undef TM_LTTNG_ENUM_
#undef TM_LTTNG_ARRAY_
#undef TM_LTTNG_ARRAY_TEXT_
#undef TM_LTTNG_SEQUENCE_
#undef TM_LTTNG_SEQUENCE_TEXT_
#define TM_LTTNG_INTEGER_(type, name, value, properties) {#name, TM_LTTNG_INTEGER_CLASS_(type, properties), 0, NULL},
#define TM_LTTNG_FLOAT_(type, name, value) {#name, (uint32_t)(TM_RECORD_FLOAT_ | sizeof(type) * 8), 0, NULL},
#define TM_LTTNG_STRING_(name, value) {#name, TM_RECORD_STRING_, 0, NULL},
#define TM_LTTNG_ENUM_(provider, labels, type, name, value) \
    {#name, TM_LTTNG_INTEGER_CLASS_(type, 0), 0, tm_lttng_labels_##provider##___##labels},
#define TM_LTTNG_ARRAY_(type, name, values, count, properties) \
    {#name, TM_LTTNG_INTEGER_CLASS_(type, (properties) | TM_RECORD_ARRAY_), (uint32_t)(count), NULL},
#define TM_LTTNG_ARRAY_TEXT_(type, name, text, count) {#name, TM_RECORD_FIXED_TEXT_, (uint32_t)(count), NULL},
#define TM_LTTNG_SEQUENCE_(type, name, values, count, properties) \
    {#name, TM_LTTNG_INTEGER_CLASS_(type, (properties) | TM_RECORD_SEQUENCE_), 0, NULL},
#define TM_LTTNG_SEQUENCE_TEXT_(type, name, text, count) {#name, TM_RECORD_SEQUENCE_TEXT_, 0, NULL},
#undef LTTNG_UST_TRACEPOINT_EVENT_CLASS
#define LTTNG_UST_TRACEPOINT_EVENT_CLASS(provider, name, args, fields) \
    static const struct tm_record_field_ tm_lttng_fields_##provider##___##name[] __attribute__((unused)) = { \
        fields{NULL, 0, 0, NULL}};
#include LTTNG_UST_TRACEPOINT_INCLUDE

/* ---- Lengths: texts and lists are kept, so that they are the same when they are written ---- */

#include "tracemill-reset.h"
#undef TM_LTTNG_INTEGER_
#undef TM_LTTNG_FLOAT_
#undef TM_LTTNG_STRING_
#undef TM_LTTNG_ENUM_
#undef TM_LTTNG_ARRAY_
#undef TM_LTTNG_ARRAY_TEXT_
#undef TM_LTTNG_SEQUENCE_
#undef TM_LTTNG_SEQUENCE_TEXT_
#define TM_LTTNG_INTEGER_(type, name, value, properties) tm_lttng_len_ += sizeof(type);
#define TM_LTTNG_FLOAT_(type, name, value) tm_lttng_len_ += sizeof(type);
#define TM_LTTNG_STRING_(name, value) \
    tm_lttng_kept_ = tm_lttng_keep_string_(tm_lttng_site_, tm_lttng_kept_, (const char *)(value)); \
    tm_lttng_len_ += tm_lttng_kept_[-1].len + 1;
#define TM_LTTNG_ENUM_(provider, labels, type, name, value) tm_lttng_len_ += sizeof(type);
#define TM_LTTNG_ARRAY_(type, name, values, count, properties) tm_lttng_len_ += sizeof(type) * (count);
#define TM_LTTNG_ARRAY_TEXT_(type, name, text, count) tm_lttng_len_ += (count);
#define TM_LTTNG_SEQUENCE_(type, name, values, count, properties) \
    tm_lttng_kept_ = tm_lttng_keep_(tm_lttng_kept_, (const void *)(values), sizeof(type) * tm_lttng_count_((size_t)(count))); \
    tm_lttng_len_ += sizeof(uint32_t) + tm_lttng_kept_[-1].len;
#define TM_LTTNG_SEQUENCE_TEXT_(type, name, text, count) \
    tm_lttng_kept_ = tm_lttng_keep_text_( \
        tm_lttng_site_, tm_lttng_kept_, tm_record_text_((const void *)(text), tm_lttng_count_((size_t)(count)))); \
    tm_lttng_len_ += sizeof(uint32_t) + tm_lttng_kept_[-1].len;
#undef LTTNG_UST_TRACEPOINT_EVENT_CLASS
#define LTTNG_UST_TRACEPOINT_EVENT_CLASS(provider, name, args, fields) \
    TM_RECORD_INLINE_ uint64_t tm_lttng_len_##provider##___##name( \
        const struct tm_record_site_ *tm_lttng_site_ __attribute__((unused)), \
        tm_text *tm_lttng_kept_ __attribute__((unused)) TM_LTTNG_PARAMETERS_(args)) { \
        uint64_t tm_lttng_len_ = 8; \
        fields return tm_lttng_len_; \
    }
#include LTTNG_UST_TRACEPOINT_INCLUDE

/* ---- Values ---- */

#include "tracemill-reset.h"
#undef TM_LTTNG_INTEGER_
#undef TM_LTTNG_FLOAT_
#undef TM_LTTNG_STRING_
#undef TM_LTTNG_ENUM_
#undef TM_LTTNG_ARRAY_
#undef TM_LTTNG_ARRAY_TEXT_
#undef TM_LTTNG_SEQUENCE_
#undef TM_LTTNG_SEQUENCE_TEXT_
#undef TM_LTTNG_PUT_
#define TM_LTTNG_PUT_(type, value) \
    { \
        type tm_lttng_value_ = (type)(value); \
        tm_lttng_at_ = tm_record_put_(tm_lttng_at_, &tm_lttng_value_, sizeof tm_lttng_value_); \
    }
#define TM_LTTNG_INTEGER_(type, name, value, properties) \
    TM_LTTNG_CHECK_(TM_LTTNG_IS_INTEGER_(type), \
                    "lttng_ust_field_integer(" #type ", " #name ", ..) is not supported: integers have at most 64 bits") \
    TM_LTTNG_PUT_(type, value)
#define TM_LTTNG_FLOAT_(type, name, value) \
    TM_LTTNG_CHECK_(sizeof(type) == 4 || sizeof(type) == 8, \
                    "lttng_ust_field_float(" #type ", " #name ", ..) is not supported: floats have 32 or 64 bits") \
    TM_LTTNG_PUT_(type, value)
#define TM_LTTNG_STRING_(name, value) tm_lttng_at_ = tm_lttng_put_string_(tm_lttng_at_, *tm_lttng_kept_++);
#define TM_LTTNG_ENUM_(provider, labels, type, name, value) \
    TM_LTTNG_CHECK_(TM_LTTNG_IS_INTEGER_(type), \
                    "lttng_ust_field_enum(.., " #type ", " #name ", ..) is not supported: its type is an integer") \
    TM_LTTNG_PUT_(type, value)
#define TM_LTTNG_ARRAY_(type, name, values, count, properties) \
    TM_LTTNG_CHECK_(TM_LTTNG_IS_INTEGER_(type), \
                    "lttng_ust_field_array(" #type ", " #name ", ..) is not supported: elements are integers") \
    tm_lttng_at_ = tm_lttng_put_array_(tm_lttng_at_, (const void *)(values), sizeof(type) * (count));
#define TM_LTTNG_ARRAY_TEXT_(type, name, text, count) \
    TM_LTTNG_CHECK_(sizeof(type) == 1, \
                    "lttng_ust_field_array_text(" #type ", " #name ", ..) is not supported: characters have 8 bits") \
    tm_lttng_at_ = tm_lttng_put_fixed_text_(tm_lttng_at_, (const char *)(text), (count));
#define TM_LTTNG_SEQUENCE_(type, name, values, count, properties) \
    TM_LTTNG_CHECK_(TM_LTTNG_IS_INTEGER_(type), \
                    "lttng_ust_field_sequence(" #type ", " #name ", ..) is not supported: elements are integers") \
    tm_lttng_at_ = tm_lttng_put_sequence_(tm_lttng_at_, *tm_lttng_kept_++, sizeof(type));
#define TM_LTTNG_SEQUENCE_TEXT_(type, name, text, count) \
    TM_LTTNG_CHECK_(sizeof(type) == 1, \
                    "lttng_ust_field_sequence_text(" #type ", " #name ", ..) is not supported: characters have 8 bits") \
    tm_lttng_at_ = tm_record_put_text_(tm_lttng_at_, *tm_lttng_kept_++);
#undef LTTNG_UST_TRACEPOINT_EVENT_CLASS
#define LTTNG_UST_TRACEPOINT_EVENT_CLASS(provider, name, args, fields) \
    TM_RECORD_INLINE_ void tm_lttng_put_##provider##___##name( \
        unsigned char *tm_lttng_at_ __attribute__((unused)), \
        const tm_text *tm_lttng_kept_ __attribute__((unused)) TM_LTTNG_PARAMETERS_(args)) { \
        fields \
    }
#include LTTNG_UST_TRACEPOINT_INCLUDE

/* ---- Probes ---- */

#include "tracemill-reset.h"
#undef LTTNG_UST_TRACEPOINT_EVENT_INSTANCE
#define LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(template_provider, template_name, provider, name, args) \
    static __attribute__((noinline, cold)) void tm_lttng_special_##provider##___##name( \
        const struct tm_record_site_ *tm_lttng_site_, const void *tm_lttng_frame_ TM_LTTNG_PARAMETERS_(args)) { \
        tm_text tm_lttng_kept_[sizeof tm_lttng_fields_##template_provider##___##template_name / \
                               sizeof tm_lttng_fields_##template_provider##___##template_name[0]]; \
        struct tm_record_scratch_ tm_lttng_scratch_; \
        const uint64_t tm_lttng_len_ = tm_lttng_len_##template_provider##___##template_name( \
            tm_lttng_site_, tm_lttng_kept_ TM_LTTNG_NAMES_(args)); \
        if (!tm_record_begin_special_(&tm_lttng_scratch_, tm_lttng_len_ - 8)) return; \
        tm_lttng_put_##template_provider##___##template_name( \
            tm_lttng_scratch_.bytes, tm_lttng_kept_ TM_LTTNG_NAMES_(args)); \
        tm_record_end_special_(tm_lttng_site_, &tm_lttng_scratch_, tm_lttng_frame_); \
    } \
    static void tm_lttng_record_##provider##___##name( \
        struct tm_lttng_tracepoint_ *tm_lttng_it_ TM_LTTNG_PARAMETERS_(args)) { \
        struct tm_record_site_ *const tm_lttng_site_ = &tm_lttng_it_->site; \
        uint32_t tm_lttng_state_ = __atomic_load_n(&tm_lttng_site_->state, __ATOMIC_ACQUIRE); \
        tm_text tm_lttng_kept_[sizeof tm_lttng_fields_##template_provider##___##template_name / \
                               sizeof tm_lttng_fields_##template_provider##___##template_name[0]]; \
        struct tm_record_event_ tm_lttng_event_; \
        uint64_t tm_lttng_len_; \
        uint32_t tm_lttng_room_; \
        if (TM_RECORD_RARE_(tm_lttng_state_ == 0)) tm_lttng_state_ = tm_lttng_ask_(tm_lttng_it_); \
        if (tm_lttng_state_ <= 1) return; \
        if (TM_RECORD_RARE_(TM_RECORD_IS_OTHER_(tm_lttng_state_))) { \
            tm_lttng_special_##provider##___##name(tm_lttng_site_, __builtin_frame_address(0) TM_LTTNG_NAMES_(args)); \
            return; \
        } \
        tm_lttng_len_ = tm_lttng_len_##template_provider##___##template_name( \
            tm_lttng_site_, tm_lttng_kept_ TM_LTTNG_NAMES_(args)); \
        tm_lttng_room_ = tm_record_open_(tm_lttng_site_, tm_lttng_len_, &tm_lttng_event_); \
        if (TM_RECORD_RARE_(tm_lttng_room_ != 1)) { \
            if (tm_lttng_room_ == 2) \
                tm_lttng_special_##provider##___##name(tm_lttng_site_, __builtin_frame_address(0) TM_LTTNG_NAMES_(args)); \
            return; \
        } \
        tm_lttng_put_##template_provider##___##template_name( \
            tm_lttng_event_.at + 8, tm_lttng_kept_ TM_LTTNG_NAMES_(args)); \
        tm_record_end_(&tm_lttng_event_, tm_lttng_state_ - 2); \
    } \
    const struct tm_lttng_probe_ tm_lttng_probe_##provider##___##name = { \
        tm_lttng_fields_##template_provider##___##template_name, \
        (uint32_t)(sizeof tm_lttng_fields_##template_provider##___##template_name / \
                   sizeof tm_lttng_fields_##template_provider##___##template_name[0]) - 1, \
        tm_lttng_level_##provider, (void (*)(void))tm_lttng_record_##provider##___##name, tm_lttng_ask_, \
        tm_record_forget_};
#include LTTNG_UST_TRACEPOINT_INCLUDE

/* ---- The next provider of this source file ---- */

#undef LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#if LTTNG_UST_COMPAT_API(0)
#undef TRACEPOINT_HEADER_MULTI_READ
#undef TRACEPOINT_INCLUDE
#define TRACEPOINT_CREATE_PROBES
#endif
#ifdef TM_LTTNG_OLD_PROVIDER_
#undef TM_LTTNG_OLD_PROVIDER_
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#endif
#include "tracemill-declare.h"

#endif
