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

/* Where tokens are in their sequences. runs: of positions that follow each other, each taken for a sequence;
 * single: those of one token. before: tokens in the KV cache before them, of several runs the mean, weighted
 * by tokens. */
struct positions {
    int64_t runs, single;
    int32_t before;
};

static struct positions positions_of(const int32_t *positions, int64_t tokens) {
    struct positions found = {0, 0, 0};
    int64_t sum = 0, begin = 0;
    for (int64_t i = 0; i < tokens; i++) {
        if (i == 0 || positions[i] != positions[i - 1] + 1) {
            begin = i;
            found.runs++;
            found.single++;
        } else if (i == begin + 1) {
            found.single--;
        }
        sum += positions[begin];
    }
    found.before = (int32_t)(sum / tokens);
    return found;
}

static int32_t prefix_of(ggml_object graph, int64_t tokens) {
    ggml_object tensor = ggml_api()->ggml_graph_get_tensor(graph, "inp_pos");
    if (tensor == NULL || !is_in_host_memory(tensor) || ggml_api()->ggml_nelements(tensor) < tokens)
        return SPOOL_UNKNOWN;
    const int32_t *positions = ggml_api()->ggml_get_data(tensor);
    return positions != NULL ? positions_of(positions, tokens).before : SPOOL_UNKNOWN;
}

static enum spool_phase phase_of(int64_t tokens, int64_t outputs) {
    if (tokens == 1 || outputs == tokens)
        return SPOOL_DECODE;
    return outputs <= 1 ? SPOOL_PREFILL : SPOOL_MIXED;
}

static void begin(int64_t step, int64_t tokens, int32_t prefix, enum spool_phase phase) {
    current = (struct ubatch){
        .microbatch = __atomic_fetch_add(&microbatches, 1, __ATOMIC_RELAXED), .step = step,
        .tokens = (int32_t)tokens, .prefix = prefix, .phase = (uint8_t)phase, .computing = true};
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
    begin(step, tokens, prefix_of(graph, tokens), phase_of(tokens, outputs < 0 ? tokens : outputs));
    return true;
}

void ubatch_of_tokens(int64_t tokens) {
    if (tokens <= 0 || tokens > INT32_MAX)
        return;
    begin(SPOOL_UNKNOWN, tokens, SPOOL_UNKNOWN, tokens == 1 ? SPOOL_DECODE : SPOOL_PHASE_UNKNOWN);
}

/* What has an output does not show: a run of one token is taken for one that is generated. */
void ubatch_at_positions(const int32_t *positions, size_t count) {
    if (!current.computing || (int64_t)count < current.tokens)
        return;
    struct positions found = positions_of(positions, current.tokens);
    current.prefix = found.before;
    current.phase = found.single == found.runs ? SPOOL_DECODE : found.single == 0 ? SPOOL_PREFILL : SPOOL_MIXED;
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

void preparation_spans(int64_t made_since, int64_t made_until, int64_t filled_since, int64_t filled_until) {
    struct spool_span span;
    if (made_since > 0 && made_until > made_since && span_of(&span, NULL, SPOOL_SCHEDULE)) {
        span.begin_ns = made_since;
        span.end_ns = made_until;
        spool_put_span(&span);
    }
    if (filled_since > 0 && span_of(&span, NULL, SPOOL_EMBED)) {
        span.begin_ns = filled_since;
        span.end_ns = filled_until;
        spool_put_span(&span);
    }
}
