#include "ggml/tables.h"
#include "ggml/forward.h"
#include "ggml/inside.h"
#include "ggml/launches.h"
#include "ggml/marks.h"
#include "ggml/rpc_server.h"
#include "ggml/state.h"
#include "ggml/ubatch.h"

#include <pthread.h>
#include <string.h>

/* What is left out of the host's waits: it did not wait. */
static const int64_t SHORTEST_SYNC_NS = 2000;

/* More than 0 within a wait: one inside another is part of it. */
static _Thread_local int waiting;

void sync_begin(void) {
    waiting++;
}

void sync_end(const struct device *device, int64_t begin_ns) {
    if (--waiting == 0 && this_ubatch()->microbatch >= 0 && spool_now() - begin_ns >= SHORTEST_SYNC_NS)
        host_span(device, SPOOL_SYNC, begin_ns, SPOOL_UNKNOWN);
}

/* ---- graphs ---- */

void forward_is_over(struct device *device) {
    if (device->forward_place.file == NULL)
        return;
    device->forward.end_ns = device->free_since = spool_now();
    spool_close_span(device->forward_place, &device->forward);
    device->forward_place.file = NULL;
}

void layers_of_split(ggml_object graph, int16_t *begin, int16_t *end) {
    const struct ggml_api *api = ggml_api();
    int nodes = api->ggml_graph_n_nodes(graph), first = -1, last = -1;
    for (int i = 0; i < nodes && first < 0; i++)
        first = layer_of(api->ggml_graph_node(graph, i));
    for (int i = nodes - 1; i >= 0 && last < 0; i--)
        last = layer_of(api->ggml_graph_node(graph, i));
    *begin = (int16_t)first;
    *end = (int16_t)(last >= first && first >= 0 ? last + 1 : -1);
}

static size_t bytes_of_result(ggml_object graph) {
    int nodes = ggml_api()->ggml_graph_n_nodes(graph);
    return nodes > 0 ? ggml_api()->ggml_nbytes(ggml_api()->ggml_graph_node(graph, nodes - 1)) : 0;
}

/* A split on the CPU: before any device, it looks up embeddings. */
static int compute_on_host(struct device *device, ggml_object backend, ggml_object graph) {
    const struct ubatch *ubatch = this_ubatch();
    bool is_embed = ubatch->last == NULL;
    int16_t layer_begin, layer_end;
    layers_of_split(graph, &layer_begin, &layer_end);
    int64_t bytes = is_embed ? (int64_t)bytes_of_result(graph) : SPOOL_UNKNOWN;
    struct host_work work = host_work_begin(ubatch->last, is_embed ? SPOOL_EMBED : SPOOL_SPLIT);
    work.span.layer_begin = layer_begin;
    work.span.layer_end = layer_end;
    int status = device->real.compute(backend, graph);
    host_work_end(&work, bytes);
    return status;
}

static int compute_on_stage(struct device *device, ggml_object backend, ggml_object graph) {
    struct spool_span span;
    bool marked = marks_work(device);
    forward_is_over(device);
    span_of(&span, device, SPOOL_FORWARD);
    layers_of_split(graph, &span.layer_begin, &span.layer_end);
    span.clock = marked ? SPOOL_DEVICE_CLOCK : SPOOL_HOST_CLOCK;
    span.begin_ns = spool_now();
    struct spool_place place = spool_open_span(&span);
    struct mark *begin = marked ? mark_here(device, backend) : NULL;
    uint32_t before = launches_begin(&span, device->position);
    int status = device->real.compute(backend, graph);
    launches_end(&span, before);
    if (marked) {
        span_between(device, begin, mark_here(device, backend), &span, place);
    } else {
        device->forward = span;
        device->forward_place = place;
    }
    this_ubatch()->last = device;
    return status;
}

static int our_compute(ggml_object backend, ggml_object graph) {
    struct device *device = device_of_backend(backend);
    if (is_rpc_server())
        return compute_for_client(device, backend, graph);
    if (this_ubatch()->computing && ggml_is_inside())
        inside_computes();
    if (!this_ubatch()->computing || !(device->is_host || is_stage(device)))
        return device->real.compute(backend, graph);
    return device->is_host ? compute_on_host(device, backend, graph) : compute_on_stage(device, backend, graph);
}

/* ---- copies ---- */

/* A copy from stage to stage in the queues of both: the one sends, the other waits until it is there. */
static bool our_copy(ggml_object source, ggml_object target, ggml_object from, ggml_object to) {
    struct device *sender = device_of_backend(source), *receiver = device_of_backend(target);
    struct spool_place nowhere = {NULL, 0, 0};
    if (!this_ubatch()->computing || !is_stage(sender) || !is_stage(receiver) || sender == receiver ||
        !marks_work(sender) || !marks_work(receiver))
        return receiver->real.copy(source, target, from, to);
    struct spool_span sent, received;
    span_of(&sent, sender, SPOOL_SEND);
    span_of(&received, receiver, SPOOL_RECV);
    sent.peer = (int16_t)receiver->position;
    received.peer = (int16_t)sender->position;
    sent.bytes = received.bytes = (int64_t)ggml_api()->ggml_nbytes(from);
    sent.clock = received.clock = SPOOL_DEVICE_CLOCK;
    struct mark *send = mark_here(sender, source), *receive = mark_here(receiver, target);
    uint32_t before = launches_begin(&sent, sender->position);
    bool copied = receiver->real.copy(source, target, from, to);
    launches_end(&sent, before);
    struct mark *send_end = copied ? mark_here(sender, source) : NULL;
    struct mark *receive_end = copied ? mark_here(receiver, target) : NULL;
    if (copied) {
        span_between(sender, send, send_end, &sent, nowhere);
        span_between(receiver, receive, receive_end, &received, nowhere);
    } else {
        mark_unused(sender, send);
        mark_unused(receiver, receive);
    }
    return copied;
}

static void our_set(ggml_object backend, ggml_object tensor, const void *data, size_t offset, size_t size) {
    struct device *device = device_of_backend(backend);
    struct host_work work = {.began = false};
    if (this_ubatch()->computing && is_stage(device))
        work = host_work_begin(device, SPOOL_COPY);
    device->real.set(backend, tensor, data, offset, size);
    host_work_end(&work, (int64_t)size);
}

static void our_get(ggml_object backend, ggml_object tensor, void *data, size_t offset, size_t size) {
    struct device *device = device_of_backend(backend);
    struct host_work work = {.began = false};
    if (this_ubatch()->microbatch >= 0 && !state_is_copied() && is_stage(device))
        work = host_work_begin(device, SPOOL_COPY);
    device->real.get(backend, tensor, data, offset, size);
    device->reads = true;
    host_work_end(&work, (int64_t)size);
}

/* ---- waits ---- */

static void our_synchronize(ggml_object backend) {
    struct device *device = device_of_backend(backend);
    int64_t begin_ns = spool_now();
    sync_begin();
    device->real.synchronize(backend);
    if (!device->sends_only || device->reads)
        forward_is_over(device);
    device->reads = false;
    sync_end(device, begin_ns);
}

static void our_event_synchronize(ggml_object handle, ggml_object event) {
    struct device *device = device_of(handle);
    int64_t begin_ns = spool_now();
    sync_begin();
    device->real.event_synchronize(handle, event);
    if (!device->sends_only)
        forward_is_over(device);
    sync_end(device, begin_ns);
}

/* The scheduler's events; ours are recorded past the table. */
static void our_record(ggml_object backend, ggml_object event) {
    device_of_backend(backend)->real.record(backend, event);
    inside_event();
}

/* Called for each part of a graph that was split, before it is allocated. */
static void our_optimize(ggml_object backend, ggml_object part, void *parameters) {
    struct device *device = device_of_backend(backend);
    if (device->real.optimize != NULL)
        device->real.optimize(backend, part, parameters);
    inside_part(device, part);
}

/* ---- putting them in place ---- */

/* Slots of a backend's table: name, free, set, get, (set and get in two dimensions), copy, synchronize,
 * four of plans, compute, record, wait, (optimize). It ends where the device stands. */
enum { GUID = 1, SET = 2, GET = 3, MOST_SLOTS = 24 };

void table_replace(void **slot, void *kept, void *ours) {
    if (*slot == NULL || *slot == ours)
        return;
    memcpy(kept, slot, sizeof *slot);
    *slot = ours;
}

static void replace_of_device(struct device *device) {
    enum { INIT_BACKEND = 5, EVENT_NEW = 12, EVENT_SYNCHRONIZE = 14, SLOTS = 15 };
    void **table = device->handle;
    const struct ggml_api *api = ggml_api();
    if (api->ggml_backend_dev_backend_reg == NULL ||
        table[SLOTS] != api->ggml_backend_dev_backend_reg(device->handle))
        return; /* another layout than is known */
    if (device->real.event_new == NULL)
        memcpy(&device->real.event_new, &table[EVENT_NEW], sizeof *table);
    table_replace(&table[EVENT_SYNCHRONIZE], &device->real.event_synchronize, ADDRESS(our_event_synchronize));
}

/* What tells of a scheduler where it cannot be asked. */
static void replace_for_inside(struct device_functions *real, void **record, void **optimize) {
    table_replace(record, &real->record, ADDRESS(our_record));
    if (optimize == NULL || *optimize == ADDRESS(our_optimize))
        return;
    memcpy(&real->optimize, optimize, sizeof *optimize);
    *optimize = ADDRESS(our_optimize); /* also where it was empty, which does no more than before */
}

void tables_of_backend(ggml_object backend) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct device *device = backend != NULL && api_sees_splits() ? device_of_backend(backend) : NULL;
    if (device == NULL)
        return;
    void **table = (void **)backend + GUID;
    int slots = 0;
    while (slots < MOST_SLOTS && table[slots] != device->handle)
        slots++;
    if (slots != 13 && slots != 14 && slots != 16)
        return;
    int copy = slots == 16 ? 6 : 4, synchronize = copy + 1, compute = copy + 6, record = copy + 7;
    struct device_functions *real = &device->real;
    pthread_mutex_lock(&lock);
    table_replace(&table[SET], &real->set, ADDRESS(our_set));
    table_replace(&table[GET], &real->get, ADDRESS(our_get));
    table_replace(&table[copy], &real->copy, ADDRESS(our_copy));
    table_replace(&table[synchronize], &real->synchronize, ADDRESS(our_synchronize));
    table_replace(&table[compute], &real->compute, ADDRESS(our_compute));
    if (ggml_is_inside())
        replace_for_inside(real, &table[record], slots > 13 ? &table[slots - 1] : NULL);
    else
        memcpy(&real->record, &table[record], sizeof *table);
    if (!device->is_host)
        replace_of_device(device);
    pthread_mutex_unlock(&lock);
}
