#define _GNU_SOURCE
#include "ggml/devices.h"
#include "ggml/json.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LAYERS = 4096 };

static struct device devices[MOST_DEVICES];
static int device_count;
static int stage_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct device *known(ggml_object handle) {
    int count = __atomic_load_n(&device_count, __ATOMIC_ACQUIRE);
    for (int i = 0; i < count; i++)
        if (devices[i].handle == handle)
            return &devices[i];
    return NULL;
}

struct device *device_of(ggml_object handle) {
    struct device *device = handle != NULL ? known(handle) : NULL;
    const struct ggml_api *api = ggml_api();
    if (device != NULL || handle == NULL || api->ggml_backend_dev_name == NULL ||
        api->ggml_backend_dev_type == NULL)
        return device;
    pthread_mutex_lock(&lock);
    device = known(handle);
    if (device == NULL && device_count < MOST_DEVICES) {
        device = &devices[device_count];
        device->handle = handle;
        device->name = strdup(api->ggml_backend_dev_name(handle));
        device->number = device->position = NO_STAGE;
        /* Libraries of matrix functions, as BLAS, run on the CPU too. */
        device->is_host = api->ggml_backend_dev_type(handle) == 0 ||
                          (device->name != NULL && strcmp(device->name, "BLAS") == 0);
        device->sends_only = device->name != NULL && strncmp(device->name, "RPC", 3) == 0;
        if (device->name != NULL)
            __atomic_store_n(&device_count, device_count + 1, __ATOMIC_RELEASE);
        else
            device = NULL;
    }
    pthread_mutex_unlock(&lock);
    return device;
}

struct device *device_of_backend(ggml_object backend) {
    return backend != NULL ? device_of(ggml_api()->ggml_backend_get_device(backend)) : NULL;
}

struct device *device_at(int position) {
    for (int i = 0; i < device_count; i++)
        if (devices[i].position == position)
            return &devices[i];
    return NULL;
}

struct device *last_device(void) {
    return device_at(__atomic_load_n(&stage_count, __ATOMIC_ACQUIRE) - 1);
}

/* The digits of "CUDA1" or "RPC1[host:port]"; -1 if there are none. */
static int ordinal(const char *name) {
    size_t at = strcspn(name, "0123456789[");
    return name[at] >= '0' && name[at] <= '9' ? atoi(name + at) : SPOOL_UNKNOWN;
}

static void declare(struct device *device) {
    size_t free_bytes = 0, total_bytes = 0;
    if (ggml_api()->ggml_backend_dev_memory != NULL)
        ggml_api()->ggml_backend_dev_memory(device->handle, &free_bytes, &total_bytes);
    struct spool_stage stage = {
        .memory_bytes = total_bytes > 0 ? (int64_t)total_bytes : SPOOL_UNKNOWN, .stage = stage_count,
        .rank = stage_count, .ordinal = ordinal(device->name), .layer_begin = device->layer_begin,
        .layer_end = device->layer_end, .device = device->name, .capability = ""};
    device->number = spool_declare_stage(&stage);
    device->position = stage_count;
    __atomic_store_n(&stage_count, stage_count + 1, __ATOMIC_RELEASE);
}

static struct device *device_of_node(ggml_object scheduler, ggml_object node) {
    return node != NULL ? device_of_backend(ggml_api()->ggml_backend_sched_get_tensor_backend(scheduler, node))
                        : NULL;
}

/* votes: how many tensors of a layer a device has. holders: per layer the device that most of its tensors are
 * on; the CPU only where no other has any, since without KV offload it computes a part of each. */
struct layers {
    int count;
    uint16_t votes[MOST_LAYERS][MOST_DEVICES];
    struct device *holders[MOST_LAYERS];
};

static void count_vote(struct layers *layers, ggml_object node, const struct device *device) {
    int layer = layer_of(node);
    if (layer < 0 || layer >= MOST_LAYERS || device == NULL)
        return;
    layers->votes[layer][device - devices]++;
    layers->count = layer >= layers->count ? layer + 1 : layers->count;
}

static void find_holders(struct layers *layers) {
    for (int layer = 0; layer < layers->count; layer++) {
        const uint16_t *votes = layers->votes[layer];
        struct device *best = NULL;
        for (int i = 0; i < device_count; i++)
            if (votes[i] > 0 && (best == NULL || best->is_host ||
                                 (!devices[i].is_host && votes[i] > votes[best - devices])))
                best = &devices[i];
        layers->holders[layer] = best;
    }
}

static void declare_holders(const struct layers *layers) {
    for (int layer = 0; layer < layers->count; layer++) {
        struct device *holder = layers->holders[layer];
        if (holder == NULL || holder->is_host || holder->number != NO_STAGE)
            continue;
        holder->layer_begin = layer;
        for (int other = layer; other < layers->count; other++)
            if (layers->holders[other] == holder)
                holder->layer_end = other + 1;
        declare(holder);
    }
}

static void tell_layers(const struct layers *layers) {
    struct json list = json_begin('[');
    for (int layer = 0; layer < layers->count; layer++)
        json_add_text(&list, layers->holders[layer] != NULL ? layers->holders[layer]->name : "");
    spool_fact("llama_layer_devices", json_end(&list));
}

static void tell_device(const char *fact, const struct device *device) {
    if (device == NULL)
        return;
    struct json text = json_begin(0);
    json_add_text(&text, device->name);
    spool_fact(fact, json_end(&text));
}

static const struct device *of_output;

const struct device *output_device(void) {
    return of_output;
}

static void stages_are(struct layers *layers, const struct device *embedding, const struct device *output) {
    of_output = output;
    find_holders(layers);
    declare_holders(layers);
    tell_layers(layers);
    tell_device("llama_output_device", output);
    tell_device("llama_embedding_device", embedding);
    tell_devices();
}

void stages_from_graph(ggml_object scheduler, ggml_object graph) {
    static bool found;
    struct layers *layers =
        !__atomic_load_n(&found, __ATOMIC_ACQUIRE) ? calloc(1, sizeof *layers) : NULL;
    int nodes = layers != NULL ? ggml_api()->ggml_graph_n_nodes(graph) : 0;
    for (int i = 0; i < nodes; i++) {
        ggml_object node = ggml_api()->ggml_graph_node(graph, i);
        count_vote(layers, node, layer_of(node) >= 0 ? device_of_node(scheduler, node) : NULL);
    }
    if (layers != NULL && layers->count > 0) {
        ggml_object output = ggml_api()->ggml_graph_get_tensor(graph, "result_output");
        stages_are(layers, device_of_node(scheduler, ggml_api()->ggml_graph_node(graph, 0)),
                   device_of_node(scheduler, output));
        __atomic_store_n(&found, true, __ATOMIC_RELEASE);
    }
    free(layers);
}

/* Of the graph that this thread has split last. */
static _Thread_local struct {
    struct layers *layers;
    int parts;
    const struct device *embedding, *output;
} split;

void split_begins(void) {
    if (split.layers != NULL)
        memset(split.layers, 0, sizeof *split.layers);
    split.parts = 0;
    split.embedding = split.output = NULL;
}

void split_has(struct device *device, ggml_object part) {
    int nodes = ggml_api()->ggml_graph_n_nodes(part);
    if (split.layers == NULL)
        split.layers = calloc(1, sizeof *split.layers);
    for (int i = 0; split.layers != NULL && i < nodes; i++)
        count_vote(split.layers, ggml_api()->ggml_graph_node(part, i), device);
    if (split.parts++ == 0)
        split.embedding = device;
    if (ggml_api()->ggml_graph_get_tensor(part, "result_output") != NULL)
        split.output = device;
}

int stages_from_split(void) {
    if (split.layers == NULL || split.layers->count == 0)
        return 0;
    stages_are(split.layers, split.embedding, split.output);
    free(split.layers);
    split.layers = NULL;
    return split.parts;
}

void tell_devices(void) {
    static const char *const names[] = {"host", "events", "cuda events"};
    struct json times = json_begin('{'), descriptions = json_begin('{');
    for (int i = 0; i < device_count; i++) {
        if (devices[i].is_host || devices[i].real.compute == NULL)
            continue; /* no backend of it is used */
        json_add_key(&times, devices[i].name);
        json_add_text(&times, devices[i].sends_only ? "client" : names[devices[i].times]);
        if (ggml_api()->ggml_backend_dev_description != NULL) {
            json_add_key(&descriptions, devices[i].name);
            json_add_text(&descriptions, ggml_api()->ggml_backend_dev_description(devices[i].handle));
        }
    }
    spool_fact("llama_device_times", json_end(&times));
    spool_fact("llama_device_descriptions", json_end(&descriptions));
}
