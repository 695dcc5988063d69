/* Stands in for functions of ggml and llama.cpp, does what they do, and tells what happens. Loaded by
 * LD_PRELOAD; in a process that uses none of them it does nothing. */
#define _GNU_SOURCE
#include "ggml/facts.h"
#include "ggml/forward.h"
#include "ggml/inside.h"
#include "ggml/last_words.h"
#include "ggml/stand_in.h"
#include "ggml/state.h"
#include "ggml/tables.h"
#include "ggml/ubatch.h"

#include <stdlib.h>
#include <string.h>

static bool records;
static int64_t steps;
static _Thread_local int64_t this_step = SPOOL_UNKNOWN;
/* Within a decode: when the scheduler was last reset for a graph to come, when that graph was allocated,
 * and since when inputs can be filled in; 0 where that has not happened. */
static _Thread_local int64_t graph_since, graph_until, inputs_since;
/* More than 0 while a token is sampled: samplers call each other. */
static _Thread_local int sampling;

__attribute__((constructor)) static void start(void) {
    records = spool_start();
    if (!records)
        return;
    read_flags();
    last_words_keep();
    inside_begin();
}

/* Passed on as it is. A struct by value lies on the stack, and the callee reads only what is its own. */
struct batch {
    void *fields[12];
};

static void begin_step(ggml_object context) {
    if (!records)
        return;
    tell_context(context);
    state_forget();
    this_step = __atomic_fetch_add(&steps, 1, __ATOMIC_RELAXED);
    graph_since = graph_until = inputs_since = 0;
}

OURS int llama_decode(ggml_object context, struct batch batch);
OURS int llama_decode(ggml_object context, struct batch batch) {
    REAL(llama_decode);
    begin_step(context);
    return real(context, batch);
}

OURS int llama_process(ggml_object context, int type, ggml_object batch);
OURS int llama_process(ggml_object context, int type, ggml_object batch) {
    REAL(llama_process);
    begin_step(context);
    return real(context, type, batch);
}

static void sampled(int64_t begin_ns) {
    if (--sampling == 0 && records && this_ubatch()->microbatch >= 0)
        host_span(last_device(), SPOOL_SAMPLE, begin_ns, SPOOL_UNKNOWN);
}

OURS int32_t llama_sampler_sample(ggml_object sampler, ggml_object context, int32_t index);
OURS int32_t llama_sampler_sample(ggml_object sampler, ggml_object context, int32_t index) {
    REAL(llama_sampler_sample);
    int64_t begin_ns = spool_now();
    sampling++;
    int32_t token = real(sampler, context, index);
    sampled(begin_ns);
    return token;
}

OURS void llama_sampler_apply(ggml_object sampler, ggml_object candidates);
OURS void llama_sampler_apply(ggml_object sampler, ggml_object candidates) {
    REAL(llama_sampler_apply);
    int64_t begin_ns = spool_now();
    sampling++;
    real(sampler, candidates);
    sampled(begin_ns);
}

OURS ggml_object ggml_backend_dev_init(ggml_object device, const char *parameters);
OURS ggml_object ggml_backend_dev_init(ggml_object device, const char *parameters) {
    REAL(ggml_backend_dev_init);
    ggml_object backend = real(device, parameters);
    if (records)
        tables_of_backend(backend);
    return backend;
}

struct buffer_table {
    void *slots[16];
};

OURS ggml_object ggml_backend_buffer_init(ggml_object type, struct buffer_table table, void *context,
                                          size_t size);
OURS ggml_object ggml_backend_buffer_init(ggml_object type, struct buffer_table table, void *context,
                                          size_t size) {
    REAL(ggml_backend_buffer_init);
    ggml_object buffer = real(type, table, context, size);
    if (records)
        tables_of_buffer(buffer, type);
    return buffer;
}

OURS void ggml_backend_sched_reset(ggml_object scheduler);
OURS void ggml_backend_sched_reset(ggml_object scheduler) {
    REAL(ggml_backend_sched_reset);
    graph_since = spool_now();
    real(scheduler);
}

OURS bool ggml_backend_sched_alloc_graph(ggml_object scheduler, ggml_object graph);
OURS bool ggml_backend_sched_alloc_graph(ggml_object scheduler, ggml_object graph) {
    REAL(ggml_backend_sched_alloc_graph);
    sync_begin(); /* where memory has to grow it waits, which is part of it and no span of its own */
    bool allocated = real(scheduler, graph);
    sync_end(NULL, INT64_MAX);
    graph_until = inputs_since = spool_now();
    return allocated;
}

OURS void ggml_backend_sched_synchronize(ggml_object scheduler);
OURS void ggml_backend_sched_synchronize(ggml_object scheduler) {
    REAL(ggml_backend_sched_synchronize);
    int64_t begin_ns = spool_now();
    sync_begin();
    real(scheduler);
    sync_end(NULL, begin_ns);
    graph_since = 0;
    inputs_since = spool_now();
}

OURS int ggml_backend_sched_graph_compute_async(ggml_object scheduler, ggml_object graph);
OURS int ggml_backend_sched_graph_compute_async(ggml_object scheduler, ggml_object graph) {
    REAL(ggml_backend_sched_graph_compute_async);
    int64_t now_ns = spool_now();
    if (!records || !api_sees_graphs() || !ubatch_begin(scheduler, graph, this_step))
        return real(scheduler, graph);
    tell_scheduler(scheduler);
    preparation_spans(graph_since, graph_until, inputs_since, now_ns);
    graph_since = graph_until = inputs_since = 0;
    int status = real(scheduler, graph);
    ubatch_end();
    return status;
}
