#include "ggml/forward.h"
#include "ggml/state.h"
#include "ggml/tables.h"
#include "ggml/ubatch.h"

#include <pthread.h>
#include <string.h>

/* What the tables of all buffers of one type held. */
struct buffer_type {
    ggml_object handle;
    struct device *device;
    void (*set)(ggml_object buffer, ggml_object tensor, const void *data, size_t offset, size_t size);
    void (*get)(ggml_object buffer, ggml_object tensor, void *data, size_t offset, size_t size);
    bool (*copy)(ggml_object buffer, ggml_object from, ggml_object to);
};

enum { MOST_TYPES = 128, SET = 4, GET = 5, MOST_SLOTS = 16 };

static struct buffer_type types[MOST_TYPES];
static int type_count, type_at; /* type_at: the slot after the last of the table, where the type stands */

/* The stages of a copy that a buffer could not do by itself, and that goes by way of the host next. */
static _Thread_local struct device *copied_from, *copied_to;

static const struct buffer_type *type_of(ggml_object buffer) {
    ggml_object handle = ((ggml_object *)buffer)[__atomic_load_n(&type_at, __ATOMIC_ACQUIRE)];
    int count = __atomic_load_n(&type_count, __ATOMIC_ACQUIRE);
    for (int i = 0; i < count; i++)
        if (types[i].handle == handle)
            return &types[i];
    return NULL; /* cannot be: only tables of known types were changed */
}

/* One side of a copy between stages that the host makes: it begins when the device is free. */
static void message_span(const struct device *device, const struct device *peer, enum spool_kind kind,
                         int64_t begin_ns, size_t bytes) {
    struct spool_span span;
    span_of(&span, device, kind);
    bool waits = kind == SPOOL_RECV && device->free_since > 0 && device->free_since < begin_ns;
    span.begin_ns = waits ? device->free_since : begin_ns;
    span.end_ns = spool_now();
    span.peer = (int16_t)peer->position;
    span.bytes = (int64_t)bytes;
    spool_put_span(&span);
}

static void our_set(ggml_object buffer, ggml_object tensor, const void *data, size_t offset, size_t size) {
    const struct buffer_type *type = type_of(buffer);
    bool told = this_ubatch()->computing && is_stage(type->device);
    bool receives = told && copied_to == type->device;
    struct host_work work = {.began = false};
    if (told && !receives)
        work = host_work_begin(type->device, SPOOL_COPY);
    int64_t begin_ns = receives ? spool_now() : 0;
    type->set(buffer, tensor, data, offset, size);
    host_work_end(&work, (int64_t)size);
    if (receives)
        message_span(copied_to, copied_from, SPOOL_RECV, begin_ns, size);
    if (told)
        copied_to = NULL;
}

static void our_get(ggml_object buffer, ggml_object tensor, void *data, size_t offset, size_t size) {
    const struct buffer_type *type = type_of(buffer);
    bool told = this_ubatch()->microbatch >= 0 && is_stage(type->device);
    bool sends = told && copied_to != NULL && copied_from == type->device;
    struct host_work work = {.began = false};
    if (told && !sends && !state_is_copied())
        work = host_work_begin(type->device, SPOOL_COPY);
    int64_t begin_ns = sends ? spool_now() : 0;
    type->get(buffer, tensor, data, offset, size);
    if (told)
        forward_is_over(type->device);
    host_work_end(&work, (int64_t)size);
    if (sends)
        message_span(copied_from, copied_to, SPOOL_SEND, begin_ns, size);
}

static bool our_copy(ggml_object buffer, ggml_object from, ggml_object to) {
    const struct buffer_type *type = type_of(buffer);
    const struct ggml_api *api = ggml_api();
    ggml_object source = ((ggml_object *)from)[1]; /* a tensor's buffer is its second field */
    struct device *sender = NULL;
    if (this_ubatch()->computing && source != NULL && !api->ggml_backend_buffer_is_host(source))
        sender = device_of(api->ggml_backend_buft_get_device(((ggml_object *)source)[type_at]));
    int64_t begin_ns = spool_now();
    bool copied = type->copy(buffer, from, to);
    if (!is_stage(sender) || !is_stage(type->device) || sender == type->device)
        return copied;
    copied_from = sender;
    copied_to = copied ? NULL : type->device;
    if (copied) {
        size_t bytes = api->ggml_nbytes(from);
        forward_is_over(sender);
        message_span(sender, type->device, SPOOL_SEND, begin_ns, bytes);
        message_span(type->device, sender, SPOOL_RECV, begin_ns, bytes);
    }
    return copied;
}

/* Slots of a buffer's table: free, base, init, memset, set, get, (set and get in two dimensions), copy,
 * clear, reset. The first two are compared by their addresses, so they are left alone. */
void tables_of_buffer(ggml_object buffer, ggml_object handle) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    if (buffer == NULL || handle == NULL || !api_sees_splits())
        return;
    void **table = buffer;
    int slots = 0;
    while (slots < MOST_SLOTS && table[slots] != handle)
        slots++;
    struct device *device = device_of(ggml_api()->ggml_backend_buft_get_device(handle));
    /* Without functions it is one that llama.cpp only asks about, and not memory. One with ours was made
     * within another's making. */
    if ((slots != 9 && slots != 11) || table[SET] == NULL || table[SET] == ADDRESS(our_set) ||
        device == NULL || device->is_host)
        return;
    int copy = slots == 11 ? 8 : 6;
    pthread_mutex_lock(&lock);
    struct buffer_type *type = types;
    while (type < types + type_count && type->handle != handle)
        type++;
    bool is_new = type == types + type_count && type_count < MOST_TYPES;
    if (is_new) {
        *type = (struct buffer_type){.handle = handle, .device = device};
        memcpy(&type->set, &table[SET], sizeof *table);
        memcpy(&type->get, &table[GET], sizeof *table);
        memcpy(&type->copy, &table[copy], sizeof *table);
        __atomic_store_n(&type_at, slots, __ATOMIC_RELEASE);
        __atomic_store_n(&type_count, type_count + 1, __ATOMIC_RELEASE);
    }
    /* A buffer of the same type with other functions keeps them. */
    if (type < types + type_count && memcmp(&type->set, &table[SET], sizeof *table) == 0 &&
        memcmp(&type->get, &table[GET], sizeof *table) == 0 &&
        memcmp(&type->copy, &table[copy], sizeof *table) == 0) {
        struct buffer_type kept;
        table_replace(&table[SET], &kept.set, ADDRESS(our_set));
        table_replace(&table[GET], &kept.get, ADDRESS(our_get));
        table_replace(&table[copy], &kept.copy, ADDRESS(our_copy));
    }
    pthread_mutex_unlock(&lock);
}
