/* The ubatch that a thread of the program works on, and the spans that are of the host. */
#ifndef BUBBLESCOPE_GGML_UBATCH_H
#define BUBBLESCOPE_GGML_UBATCH_H

#include "ggml/devices.h"
#include "spool.h"

/* computing: its graph is being handed to the devices; last: the one that was handed a part of it last. */
struct ubatch {
    int64_t microbatch, step;
    int32_t tokens, prefix;
    uint8_t phase;
    bool computing;
    struct device *last;
};

/* That of the calling thread; its microbatch is -1 if there was none. */
struct ubatch *this_ubatch(void);

/* Begins the ubatch of a graph, if it is one that a model computes tokens with. */
bool ubatch_begin(ggml_object scheduler, ggml_object graph, int64_t step);
void ubatch_end(void);

/* Begins the ubatch whose token ids are filled in now, and tells where in their sequences they are. For a
 * program that ggml is linked into, where nothing else shows. */
void ubatch_of_tokens(int64_t tokens);
void ubatch_at_positions(const int32_t *positions, size_t count);

/* A span of a device's stage, of the first one where `device` is none, with all that is known of the ubatch, to
 * which copies of states do not belong; false if there is no stage yet. */
bool span_of(struct spool_span *span, const struct device *device, enum spool_kind kind);

/* Writes a span of the host that ends now. */
void host_span(const struct device *device, enum spool_kind kind, int64_t begin_ns, int64_t bytes);

/* A span of the host that launches work on devices; nothing is written of one that never began, or that
 * was dropped. */
struct host_work {
    struct spool_span span;
    uint32_t launched;
    bool began;
};
struct host_work host_work_begin(const struct device *device, enum spool_kind kind);
void host_work_end(struct host_work *work, int64_t bytes);
void host_work_drop(struct host_work *work);

/* Writes that the graph of the ubatch was made, and that its inputs were filled in; neither where it is not
 * known when that began (0). */
void preparation_spans(int64_t made_since, int64_t made_until, int64_t filled_since, int64_t filled_until);

#endif
