#define _GNU_SOURCE
#include "ggml/launches.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Which work on devices a span launched. */
struct launches_slot {
    int64_t step, microbatch;
    uint32_t before, after;
    uint16_t stage;
    int16_t peer, layer_begin, layer_end;
    uint8_t kind, unused[31];
};
_Static_assert(sizeof(struct launches_slot) == SPOOL_SLOT, "slot");

/* What NVTX takes: its version and size, a number, and a message in ASCII. */
struct nvtx_event {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    int64_t payload;
    int32_t message_type;
    const char *message;
};
enum { NVTX_VERSION = 2, NVTX_INT64 = 2, NVTX_ASCII = 1 };

static struct {
    uint32_t (*position)(void);
    void *domain;
    void *(*create_domain)(const char *name);
    int (*push)(void *domain, const struct nvtx_event *event);
    int (*pop)(void *domain);
} tools;

static void find(void *library, const char *name, void *function) {
    void *found = library != NULL ? dlsym(library, name) : NULL;
    memcpy(function, &found, sizeof found);
}

/* CUDA 13 has only the first; what the program itself uses comes before either. */
static void *opened_nvtx(void) {
    static const char *const names[] = {"libnvtx3interop.so.1", "libnvToolsExt.so.1"};
    static const int modes[] = {RTLD_LAZY | RTLD_NOLOAD, RTLD_LAZY};
    void *library = NULL;
    for (int i = 0; i < 4 && library == NULL; i++)
        library = dlopen(names[i % 2], modes[i / 2]);
    return library;
}

/* NVTX calls what a tool has named in the environment; without one its ranges are for nobody. */
static void find_tools(void) {
    const char *kernels = getenv("BUBBLESCOPE_KERNELS");
    if (kernels != NULL)
        find(dlopen(kernels, RTLD_LAZY | RTLD_NOLOAD), "bubblescope_position", &tools.position);
    if (getenv("NVTX_INJECTION64_PATH") == NULL)
        return;
    void *nvtx = opened_nvtx();
    find(nvtx, "nvtxDomainCreateA", &tools.create_domain);
    find(nvtx, "nvtxDomainRangePushEx", &tools.push);
    find(nvtx, "nvtxDomainRangePop", &tools.pop);
    if (tools.create_domain != NULL && tools.push != NULL && tools.pop != NULL)
        tools.domain = tools.create_domain("bubblescope");
}

/* Kinds that are ranges for tools. Not messages: their range would be of the sender alone. */
static const char *const ranges[SPOOL_KINDS] = {
    [SPOOL_FORWARD] = "forward", [SPOOL_EMBED] = "embed", [SPOOL_SPLIT] = "split",
    [SPOOL_COPY] = "copy", [SPOOL_SAVE] = "save", [SPOOL_RESTORE] = "restore",
};

static bool is_range(const struct spool_span *span) {
    return tools.domain != NULL && ranges[span->kind] != NULL;
}

/* Adds a word to a name that has room for it; what is not known has none. */
static size_t add(char *name, size_t size, size_t at, const char *word, int64_t value) {
    if (value < 0 || at >= size)
        return at;
    return at + (size_t)snprintf(name + at, size - at, " %s=%lld", word, (long long)value);
}

/* The name by which a reader of other tools' traces finds the span again. */
static void name(const struct spool_span *span, int position, char *into, size_t size) {
    static const char *const phases[] = {" phase=prefill", " phase=decode", " phase=mixed", ""};
    size_t at = (size_t)snprintf(into, size, "%s stage=%d rank=%d", ranges[span->kind], position, position);
    if (span->layer_begin >= 0)
        at += (size_t)snprintf(into + at, size - at, " layers=%d-%d", span->layer_begin, span->layer_end);
    at += (size_t)snprintf(into + at, size - at, "%s", phases[span->phase]);
    at = add(into, size, at, "step", span->step);
    at = add(into, size, at, "microbatch", span->microbatch);
    at = add(into, size, at, "tokens", span->tokens);
    add(into, size, at, "prefix", span->prefix);
}

uint32_t launches_begin(const struct spool_span *span, int position) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_tools);
    if (is_range(span)) {
        char text[256];
        struct nvtx_event event = {
            .version = NVTX_VERSION, .size = sizeof event, .payload_type = NVTX_INT64,
            .payload = span->microbatch, .message_type = NVTX_ASCII, .message = text};
        name(span, position, text, sizeof text);
        tools.push(tools.domain, &event);
    }
    return tools.position != NULL ? tools.position() : 0;
}

void launches_end(const struct spool_span *span, uint32_t before) {
    if (tools.position != NULL && before != 0) {
        struct launches_slot slot = {
            .step = span->step, .microbatch = span->microbatch, .before = before, .after = tools.position(),
            .stage = span->stage, .peer = span->peer, .layer_begin = span->layer_begin,
            .layer_end = span->layer_end, .kind = span->kind};
        spool_put(SPOOL_LAUNCHES, &slot, NULL, 0);
    }
    if (is_range(span))
        tools.pop(tools.domain);
}
