#include "ggml/ubatch.h"
#include "ggml/launches.h"

static int64_t microbatches;
#define NONE {.microbatch = SPOOL_UNKNOWN, .step = SPOOL_UNKNOWN, .tokens = SPOOL_UNKNOWN, \
              .prefix = SPOOL_UNKNOWN, .phase = SPOOL_PHASE_UNKNOWN}
static const struct ubatch none = NONE;
static _Thread_local struct ubatch current = NONE;

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

static const struct device *stage_of(const struct device *device) {
    return is_stage(device) ? device : device_at(0);
}

bool span_of(struct spool_span *span, const struct device *device, enum spool_kind kind) {
    const struct device *stage = stage_of(device);
    if (stage == NULL)
        return false;
    const struct ubatch *of = kind == SPOOL_SAVE || kind == SPOOL_RESTORE ? &none : &current;
    *span = (struct spool_span){
        .step = of->step, .microbatch = of->microbatch, .bytes = SPOOL_UNKNOWN, .tokens = of->tokens,
        .prefix = of->prefix, .layer_begin = SPOOL_UNKNOWN, .layer_end = SPOOL_UNKNOWN,
        .stage = (uint16_t)stage->number, .peer = SPOOL_UNKNOWN, .kind = (uint8_t)kind, .phase = of->phase,
        .clock = SPOOL_HOST_CLOCK};
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

struct host_work host_work_begin(const struct device *device, enum spool_kind kind) {
    struct host_work work;
    work.began = span_of(&work.span, device, kind);
    if (work.began) {
        work.span.begin_ns = spool_now();
        work.launched = launches_begin(&work.span, stage_of(device)->position);
    }
    return work;
}

void host_work_end(struct host_work *work, int64_t bytes) {
    if (!work->began)
        return;
    host_work_drop(work);
    work->span.end_ns = spool_now();
    work->span.bytes = bytes;
    spool_put_span(&work->span);
}

void host_work_drop(struct host_work *work) {
    if (work->began)
        launches_end(&work->span, work->launched);
    work->began = false;
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
