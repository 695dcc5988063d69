#define _GNU_SOURCE
#include "ggml/inside.h"
#include "ggml/facts.h"
#include "ggml/forward.h"
#include "ggml/stand_in.h"
#include "ggml/symtab.h"
#include "ggml/tables.h"
#include "ggml/ubatch.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static bool wanted, installed;

void inside_begin(void) {
    wanted = true;
}

bool ggml_is_inside(void) {
    return __atomic_load_n(&installed, __ATOMIC_ACQUIRE);
}

/* ---- what shows of a ubatch ---- */

/* While a graph is split, its scheduler asks devices more often than this whether they can compute a node. */
static const int64_t PAUSE_NS = 20000000;

/* splitting: devices are asked, and the parts of the graph do not follow yet; since when, and when one was asked
 * last, by a clock that is cheap and coarse. filled_since: the inputs are filled in. 0 where that has not
 * happened. */
static _Thread_local struct {
    bool splitting;
    int64_t split_since, asked_at, filled_since;
} graph;

/* ubatches: whether there was none, one, or more; copies: of inputs, of the scheduler that was made last.
 * with_events: the device of which an event was made last. */
static _Atomic int ubatches, copies;
static _Atomic bool has_events;
static _Atomic ggml_object with_events;

static int64_t coarse_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* A graph is split before its inputs are filled in, so that the ubatch before is over. */
static bool our_supports(ggml_object handle, ggml_object node) {
    int64_t now_ns = coarse_now();
    if (!graph.splitting || now_ns - graph.asked_at > PAUSE_NS) {
        graph.splitting = true;
        graph.split_since = spool_now();
        ubatch_end();
    }
    graph.asked_at = now_ns;
    return device_of(handle)->real.supports(handle, node);
}

/* What the first ubatch is split into counts. Others were split before, of contexts that were only tried. */
void inside_part(struct device *device, ggml_object part) {
    if (ubatches == 0 && graph.splitting)
        split_begins();
    graph.splitting = false;
    if (ubatches == 0)
        split_has(device, part);
}

static void tokens_are_filled_in(size_t count) {
    int parts = ubatches == 0 ? stages_from_split() : 0;
    if (parts > 0) {
        tell_run("tables");
        tell_sizes();
        tell_splits(parts);
        ubatches = 1;
    } else if (ubatches == 1) {
        ubatches = 2;
        if (!has_events) {
            tell_pipelining(false);
            tell_copies(1);
        }
    }
    ubatch_of_tokens((int64_t)count);
    graph.splitting = false;
    graph.filled_since = spool_now();
}

void inside_computes(void) {
    preparation_spans(graph.split_since, graph.filled_since, graph.filled_since, spool_now());
    graph.split_since = graph.filled_since = 0;
}

/* A scheduler makes one event of each device for each of the copies of inputs that it keeps, right after the
 * backends that it is for. */
static ggml_object our_event_new(ggml_object handle) {
    copies = handle == with_events ? copies + 1 : 1;
    with_events = handle;
    return device_of(handle)->real.event_new(handle);
}

/* It has events only if it keeps several copies, to pipeline. */
void inside_event(void) {
    if (has_events)
        return;
    has_events = true;
    tell_pipelining(true);
    tell_copies(copies);
}

/* ---- buffers ---- */

enum { MOST_TYPES = 128 };

static struct {
    ggml_object handle;
    ggml_object (*alloc)(ggml_object type, size_t size);
} types[MOST_TYPES];
static int type_count;

/* What all buffers in the host's memory have in common that we change. */
static void (*host_set)(ggml_object buffer, ggml_object tensor, const void *data, size_t offset, size_t size);

/* The inputs of a graph are filled in in the host's memory: what tokens, and where they are. */
static void our_set(ggml_object buffer, ggml_object tensor, const void *data, size_t offset, size_t size) {
    const char *name = ggml_api()->ggml_get_name(tensor);
    if (strcmp(name, "inp_tokens") == 0)
        tokens_are_filled_in(size / sizeof(int32_t));
    else if (strcmp(name, "inp_pos") == 0)
        ubatch_at_positions(data, size / sizeof(int32_t));
    host_set(buffer, tensor, data, offset, size);
}

static void table_of_host_buffer(ggml_object buffer, ggml_object type) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    enum { SET = 4, OLD_SLOTS = 9, SLOTS = 11 };
    void **table = buffer;
    if (table[OLD_SLOTS] != type && table[SLOTS] != type)
        return;
    pthread_mutex_lock(&lock);
    if (host_set == NULL)
        memcpy(&host_set, &table[SET], sizeof *table);
    if (memcmp(&host_set, &table[SET], sizeof *table) == 0 && host_set != NULL)
        table[SET] = ADDRESS(our_set);
    pthread_mutex_unlock(&lock);
}

static ggml_object our_alloc(ggml_object type, size_t size) {
    int number = 0;
    while (types[number].handle != type)
        number++; /* it is there: only tables of known types were changed */
    ggml_object buffer = types[number].alloc(type, size);
    if (buffer != NULL && ggml_api()->ggml_backend_buffer_is_host(buffer))
        table_of_host_buffer(buffer, type);
    else
        tables_of_buffer(buffer, type);
    return buffer;
}

/* Slots of a type's table: name, alloc, (alloc for many), alignment, greatest size, sizes of one (and of
 * many), whether it is the host's. It ends where the device stands, which of the CPU's is NULL. */
static void table_of_type(ggml_object type) {
    enum { ALLOC = 1, OLD_SLOTS = 6, SLOTS = 8 };
    void **table = type;
    if (type == NULL || table[ALLOC] == ADDRESS(our_alloc) || type_count == MOST_TYPES)
        return;
    ggml_object device = ggml_api()->ggml_backend_buft_get_device(type);
    if (table[OLD_SLOTS] != device && table[SLOTS] != device)
        return; /* another layout than is known */
    types[type_count].handle = type;
    table_replace(&table[ALLOC], &types[type_count].alloc, ADDRESS(our_alloc));
    type_count++;
}

/* ---- putting them in place ---- */

/* Only of a device that the program uses its types of buffers are asked for: that alone may begin to use it. */
static ggml_object our_init(ggml_object handle, const char *parameters) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    ggml_object backend = device_of(handle)->real.init(handle, parameters);
    with_events = NULL;
    if (backend == NULL)
        return NULL;
    pthread_mutex_lock(&lock);
    table_of_type(ggml_api()->ggml_backend_dev_buffer_type(handle));
    table_of_type(ggml_api()->ggml_backend_dev_host_buffer_type(handle));
    pthread_mutex_unlock(&lock);
    tables_of_backend(backend);
    return backend;
}

static void tables_of_device(ggml_object handle) {
    enum { INIT = 5, SUPPORTS = 9, EVENT_NEW = 12, SLOTS = 15 };
    const struct ggml_api *api = ggml_api();
    struct device *device = device_of(handle);
    void **table = handle;
    if (device == NULL || table[SLOTS] != api->ggml_backend_dev_backend_reg(handle))
        return; /* another layout than is known */
    table_replace(&table[INIT], &device->real.init, ADDRESS(our_init));
    table_replace(&table[SUPPORTS], &device->real.supports, ADDRESS(our_supports));
    table_replace(&table[EVENT_NEW], &device->real.event_new, ADDRESS(our_event_new));
}

/* The devices are asked for only where the program has made its registry by itself, as it has before it
 * opens a model: asking makes it, and in that CUDA begins. */
static void install(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    size_t (*count)(void);
    ggml_object (*get)(size_t number);
    *(void **)(void *)&count = symtab_find("ggml_backend_dev_count");
    *(void **)(void *)&get = symtab_find("ggml_backend_dev_get");
    const char *is_made = symtab_find("_ZGVZL7get_regvE3reg"); /* the guard of `static reg` in get_reg() */
    if (count == NULL || get == NULL || is_made == NULL || !__atomic_load_n(is_made, __ATOMIC_ACQUIRE))
        return;
    const struct ggml_api *api = ggml_api();
    if (!api_sees_splits() || api->ggml_backend_dev_backend_reg == NULL ||
        api->ggml_backend_dev_buffer_type == NULL || api->ggml_backend_dev_host_buffer_type == NULL)
        return;
    pthread_mutex_lock(&lock);
    for (size_t number = 0; number < count(); number++)
        tables_of_device(get(number));
    pthread_mutex_unlock(&lock);
    __atomic_store_n(&installed, true, __ATOMIC_RELEASE);
}

/* Only a file on a disk is read from: another could make us wait. */
static bool is_model(FILE *file) {
    char begin[4];
    struct stat status;
    return fstat(fileno(file), &status) == 0 && S_ISREG(status.st_mode) &&
           status.st_size >= (off_t)sizeof begin &&
           pread(fileno(file), begin, sizeof begin, 0) == sizeof begin &&
           memcmp(begin, "GGUF", sizeof begin) == 0;
}

/* A model is opened by the thread that has asked for the devices and will make backends of them, which makes
 * this the moment between the two. */
OURS FILE *fopen(const char *path, const char *mode);
OURS FILE *fopen(const char *path, const char *mode) {
    REAL(fopen);
    FILE *file = real(path, mode);
    int before = errno;
    if (wanted && file != NULL && is_model(file))
        install();
    errno = before;
    return file;
}
