#define _GNU_SOURCE
#include "ggml/cuda_time.h"
#include "spool.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* An event's time is a float of milliseconds from an anchor: the older that is, the coarser. An anchor
 * is the best of a few tries, none of which may take longer than TRY_NS. */
static const int64_t ANCHOR_NS = 1000000000, TRY_NS = 2000000;
enum { TRIES = 5, NON_BLOCKING = 1 };

struct cuda_clock {
    void *context, *stream, *anchor, *spare;
    int64_t anchor_ns;
};

static struct {
    int (*cuCtxGetCurrent)(void **context);
    int (*cuCtxPushCurrent_v2)(void *context);
    int (*cuCtxPopCurrent_v2)(void **context);
    int (*cuStreamCreate)(void **stream, unsigned flags);
    int (*cuEventCreate)(void **event, unsigned flags);
    int (*cuEventRecord)(void *event, void *stream);
    int (*cuEventQuery)(void *event);
    int (*cuEventElapsedTime)(float *milliseconds, void *begin, void *end);
    int (*cuCtxGetDevice)(int *device);
    int (*cuDeviceGetUuid)(unsigned char uuid[16], int device);
    bool tells_uuid;
} cuda;

static bool find_driver(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (driver == NULL)
        return false;
#define FIND(name) ((*(void **)(void *)&cuda.name = dlsym(driver, #name)) != NULL)
    cuda.tells_uuid = FIND(cuCtxGetDevice) && FIND(cuDeviceGetUuid);
    return FIND(cuCtxGetCurrent) && FIND(cuCtxPushCurrent_v2) && FIND(cuCtxPopCurrent_v2) &&
           FIND(cuStreamCreate) && FIND(cuEventCreate) && FIND(cuEventRecord) && FIND(cuEventQuery) &&
           FIND(cuEventElapsedTime);
#undef FIND
}

/* When, on the host's clock, an event happened on a stream that nobody else uses: it lies between the
 * call that records it and the first look that finds it. */
static void take_anchor(struct cuda_clock *clock) {
    int64_t best = TRY_NS;
    for (int i = 0; i < TRIES; i++) {
        int64_t before = spool_now(), after = before;
        if (cuda.cuEventRecord(clock->spare, clock->stream) != 0)
            return;
        while (cuda.cuEventQuery(clock->spare) != 0 && after - before < TRY_NS)
            after = spool_now();
        after = spool_now();
        if (after - before < best) {
            best = after - before;
            clock->anchor_ns = before + best / 2;
            void *anchor = clock->spare;
            clock->spare = clock->anchor;
            clock->anchor = anchor;
        }
    }
    static int64_t worst_ns; /* of all devices; two that race tell both, the later one counts */
    if (best < TRY_NS && worst_ns < best / 2) {
        char text[32];
        worst_ns = best / 2;
        snprintf(text, sizeof text, "%lld", (long long)worst_ns);
        spool_fact("device_clock_uncertainty_ns", text);
    }
}

struct cuda_clock *cuda_clock_of_current_device(void) {
    struct cuda_clock *clock = calloc(1, sizeof *clock);
    if (clock != NULL && find_driver() && cuda.cuCtxGetCurrent(&clock->context) == 0 &&
        clock->context != NULL && cuda.cuStreamCreate(&clock->stream, NON_BLOCKING) == 0 &&
        cuda.cuEventCreate(&clock->anchor, 0) == 0 && cuda.cuEventCreate(&clock->spare, 0) == 0) {
        take_anchor(clock);
        if (clock->anchor_ns > 0)
            return clock;
    }
    free(clock);
    return NULL;
}

bool cuda_uuid_of_current_device(char text[CUDA_UUID]) {
    int device;
    unsigned char uuid[16];
    if (!cuda.tells_uuid || cuda.cuCtxGetDevice(&device) != 0 || cuda.cuDeviceGetUuid(uuid, device) != 0)
        return false;
    int at = snprintf(text, CUDA_UUID, "GPU-");
    for (int i = 0; i < 16; i++) {
        const char *dash = i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
        at += snprintf(text + at, (size_t)(CUDA_UUID - at), "%s%02x", dash, uuid[i]);
    }
    return true;
}

void cuda_enter(struct cuda_clock *clock) {
    (void)cuda.cuCtxPushCurrent_v2(clock->context);
}

void *cuda_event_new(struct cuda_clock *clock) {
    void *event = NULL, *before;
    if (cuda.cuCtxPushCurrent_v2(clock->context) != 0)
        return NULL;
    if (cuda.cuEventCreate(&event, 0) != 0)
        event = NULL;
    cuda.cuCtxPopCurrent_v2(&before);
    return event;
}

bool cuda_event_happened(void *event) {
    return cuda.cuEventQuery(event) == 0;
}

int64_t cuda_event_time(struct cuda_clock *clock, void *event) {
    float milliseconds;
    int64_t time = -1;
    if (spool_now() - clock->anchor_ns > ANCHOR_NS)
        take_anchor(clock);
    if (cuda.cuEventElapsedTime(&milliseconds, clock->anchor, event) == 0)
        time = clock->anchor_ns + llround((double)milliseconds * 1e6);
    return time;
}
