/* Descriptions of events for libtracemill_record: shared by the library, <tracemill/record.h> and the headers for LTTng's
 * tracepoints. Programs include one of those. */
#ifndef TRACEMILL_RECORD_SITE_H
#define TRACEMILL_RECORD_SITE_H

#include <stdint.h>

/* The name of a range of values. One without a name ends a list of them. */
struct tm_record_label_ {
    const char *name;
    int64_t first;
    int64_t last;
    uint32_t follows; /* 1: it is the value after the last one of the label before */
};

struct tm_record_field_ {
    const char *name;
    uint32_t field_class;
    uint32_t count; /* of an array or a text that always has so many elements */
    const struct tm_record_label_ *labels;
};

/* A class of events, one for each source file that names it. */
struct tm_record_site_ {
    uint32_t state; /* 0 is not known, 1 off, to 65534 the number of the class and 2, else it needs more than to be written */
    uint32_t has_counter;
    int64_t thread; /* where a thread has the pointer to its writer, from the thread pointer on */
    uint32_t longest_text;
    uint32_t field_count;
    const char *target;
    const char *name;
    const struct tm_record_field_ *fields;
    struct tm_record_site_ *next; /* of those that the library knows of this source file */
    uint32_t is_listed;
    int32_t level; /* a tm_level */
};

/* Classes of fields: the kind and the bits, or a property of integers and those. */
enum {
    TM_RECORD_UNSIGNED_ = 0x100,
    TM_RECORD_SIGNED_ = 0x200,
    TM_RECORD_FLOAT_ = 0x300,
    TM_RECORD_BOOL_ = 0x400,
    TM_RECORD_TEXT_ = 0x500,
    TM_RECORD_BYTES_ = 0x600,
    TM_RECORD_STRING_ = 0x700,     /* its bytes, and a 0 */
    TM_RECORD_FIXED_TEXT_ = 0x800, /* count bytes, of which the first 0 ends the text */
    TM_RECORD_SEQUENCE_TEXT_ = 0x900, /* as TM_RECORD_TEXT_, named as LTTng does */
    TM_RECORD_INTEGER_ = 0x1000,   /* with the properties below */
    TM_RECORD_NETWORK_ = 0x2000,   /* the most significant byte first */
    TM_RECORD_HEX_ = 0x4000,       /* shown in hexadecimal digits */
    TM_RECORD_ARRAY_ = 0x10000,    /* count of them */
    TM_RECORD_SEQUENCE_ = 0x20000  /* their number, and so many of them */
};

#endif
