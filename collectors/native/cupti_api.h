/* The part of CUPTI's activity and callback interfaces that is used here, declared anew, so that no
 * header is needed to compile and one library serves CUPTI 12.1 to 13.x. Only fields at offsets common
 * to all of these are named. */
#ifndef BUBBLESCOPE_CUPTI_API_H
#define BUBBLESCOPE_CUPTI_API_H

#include <stddef.h>
#include <stdint.h>

enum { CUPTI_SUCCESS = 0, CUPTI_MULTIPLE_SUBSCRIBERS = 39 };

/* Kinds of activity records. COPY_PEER is a copy between two devices. */
enum { ACTIVITY_COPY = 1, ACTIVITY_MEMSET = 2, ACTIVITY_KERNEL = 10, ACTIVITY_COPY_PEER = 22 };

enum { ATTRIBUTE_ZEROED_BUFFERS = 5, FLUSH_FORCED = 1 };
enum { DOMAIN_DRIVER = 1, CALL_DRIVER_GET_VERSION = 2, SITE_ENTER = 0 };

struct activity_kernel {
    uint32_t kind, unused_a[3];
    uint64_t begin, end, unused_b;
    uint32_t device, context, stream, unused_c[10], correlation, unused_d[2];
    const char *name;
    uint64_t unused_e[5];
    uint32_t unused_f, graph;
};

struct activity_copy {
    uint32_t kind;
    uint8_t copy_kind, unused_a[3];
    uint64_t bytes, begin, end;
    uint32_t device, context, stream, correlation;
    uint64_t unused_b[3];
    uint32_t graph;
};

struct activity_copy_peer {
    uint32_t kind;
    uint8_t copy_kind, unused_a[3];
    uint64_t bytes, begin, end;
    uint32_t device, context, stream, source, unused_b, target, unused_c, correlation;
    uint64_t unused_d[2];
    uint32_t graph;
};

struct activity_memset {
    uint32_t kind, value;
    uint64_t bytes, begin, end;
    uint32_t device, context, stream, correlation;
    uint64_t unused_a[3];
    uint32_t graph;
};

struct callback_call {
    uint32_t site;
    const char *function;
    const void *arguments;
    void *result;
    const char *symbol;
    void *context;
    uint32_t context_number;
    uint64_t *unused;
    uint32_t correlation;
};

typedef void (*callback_function)(void *data, int domain, uint32_t call, const void *about);
typedef void (*buffer_requested)(uint8_t **buffer, size_t *size, size_t *most_records);
typedef void (*buffer_completed)(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);

/* The functions that are used, as found in whichever libcupti the process has. */
struct cupti {
    int (*get_version)(uint32_t *version);
    int (*get_result_string)(int result, const char **text);
    int (*subscribe)(void **subscriber, callback_function function, void *data);
    int (*enable_callback)(uint32_t enable, void *subscriber, int domain, uint32_t call);
    int (*register_timestamp_callback)(uint64_t (*now)(void));
    int (*register_callbacks)(buffer_requested requested, buffer_completed completed);
    int (*set_attribute)(int attribute, size_t *size, void *value);
    int (*enable)(int kind);
    int (*flush_all)(uint32_t flag);
    int (*get_next_record)(uint8_t *buffer, size_t valid, void **record);
    int (*get_dropped)(void *context, uint32_t stream, size_t *dropped);
};

/* Opens the libcupti that goes with the process's CUDA and fills in its functions; NULL, or why not. */
const char *cupti_open(struct cupti *cupti, int driver_version);

#endif
