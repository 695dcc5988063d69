#include "ggml/ubatch.h"

static int64_t microbatches;
static _Thread_local struct ubatch current = {.microbatch = SPOOL_UNKNOWN, .step = SPOOL_UNKNOWN,
                                              .tokens = SPOOL_UNKNOWN, .prefix = SPOOL_UNKNOWN,
                                              .phase = SPOOL_PHASE_UNKNOWN};

struct ubatch *this_ubatch(void) {
    return &current;
}

static int64_t elements(ggml_object graph, const char *name) {
    ggml_object tensor = ggml_api()->ggml_graph_get_tensor(graph, name);
    return tensor != NULL ? ggml_api()->ggml_nelements(tensor) : SPOOL_UNKNOWN;
}

/* A tensor's buffer is its second field, after an enumeration. */
static bool is_in_host_memory(ggml_object tensor) {
    ggml_object buffer = ((ggml_object *)tensor)[1];
    return buffer != NULL && ggml_api()->ggml_backend_buffer_is_host(buffer);
}

/* Tokens that are in the KV cache before those of the ubatch: of each run of positions its first, and of
 * several sequences the mean, weighted by tokens. */
static int32_t prefix_of(ggml_object graph, int64_t tokens) {
    ggml_object tensor = ggml_api()->ggml_graph_get_tensor(graph, "inp_pos");
    if (tensor == NULL || !is_in_host_memory(tensor) || ggml_api()->ggml_nelements(tensor) < tokens)
        return SPOOL_UNKNOWN;
    const int32_t *positions = ggml_api()->ggml_get_data(tensor);
    int64_t sum = 0, first = 0;
    for (int64_t i = 0; positions != NULL && i < tokens; i++) {
        if (i == 0 || positions[i] != positions[i - 1] + 1)
            first = positions[i];
        sum += first;
    }
    return positions != NULL ? (int32_t)(sum / tokens) : SPOOL_UNKNOWN;
}

static enum spool_phase phase_of(int64_t tokens, int64_t outputs) {
    if (tokens == 1 || outputs == tokens)
        return SPOOL_DECODE;
    return outputs <= 1 ? SPOOL_PREFILL : SPOOL_MIXED;
}

bool ubatch_begin(ggml_object scheduler, ggml_object graph, int64_t step) {
    int64_t tokens = elements(graph, "inp_tokens");
    if (tokens <= 0 || tokens > INT32_MAX)
        tokens = elements(graph, "inp_pos");
    if (tokens <= 0 || tokens > INT32_MAX)
        return false;
    stages_from_graph(scheduler, graph);
    /* The tensor that picks them was named otherwise before; without it, all tokens have an output. */
    int64_t outputs = elements(graph, "out_ids");
    if (outputs < 0)
        outputs = elements(graph, "inp_out_ids");
    current.microbatch = __atomic_fetch_add(&microbatches, 1, __ATOMIC_RELAXED);
    current.step = step;
    current.tokens = (int32_t)tokens;
    current.prefix = prefix_of(graph, tokens);
    current.phase = phase_of(tokens, outputs < 0 ? tokens : outputs);
    current.computing = true;
    current.last = NULL;
    return true;
}

void ubatch_end(void) {
    current.computing = false;
}

bool span_of(struct spool_span *span, const struct device *device, enum spool_kind kind) {
    const struct device *stage = device != NULL && device->number != NO_STAGE ? device : device_at(0);
    if (stage == NULL)
        return false;
    *span = (struct spool_span){
        .step = current.step, .microbatch = current.microbatch, .bytes = SPOOL_UNKNOWN,
        .tokens = current.tokens, .prefix = current.prefix, .layer_begin = SPOOL_UNKNOWN,
        .layer_end = SPOOL_UNKNOWN, .stage = (uint16_t)stage->number, .peer = SPOOL_UNKNOWN,
        .kind = (uint8_t)kind, .phase = current.phase, .clock = SPOOL_HOST_CLOCK};
    return true;
}

void host_span(const struct device *device, enum spool_kind kind, int64_t begin_ns, int64_t bytes) {
    struct spool_span span;
    if (!span_of(&span, device, kind))
        return;
    span.begin_ns = begin_ns;
    span.end_ns = spool_now();
    span.bytes = bytes;
    spool_put_span(&span);
}
