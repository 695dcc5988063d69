#define _GNU_SOURCE
#include "ggml/rpc_server.h"
#include "ggml/forward.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LONGEST_COMMAND = 4096 };

static bool serves;
static char stage_name[LONGEST_COMMAND];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void read_command(void) {
    char command[LONGEST_COMMAND];
    int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t length = file >= 0 ? read(file, command, sizeof command - 1) : -1;
    if (file >= 0)
        close(file);
    if (length <= 0)
        return;
    command[length] = 0;
    const char *slash = strrchr(command, '/'), *host = "127.0.0.1", *port = "50052";
    serves = strstr(slash != NULL ? slash : command, "rpc-server") != NULL;
    for (const char *word = command; word < command + length; word += strlen(word) + 1) {
        const char *next = word + strlen(word) + 1;
        if (next >= command + length)
            break;
        if (strcmp(word, "-H") == 0 || strcmp(word, "--host") == 0)
            host = next;
        if (strcmp(word, "-p") == 0 || strcmp(word, "--port") == 0)
            port = next;
    }
    snprintf(stage_name, sizeof stage_name, "rpc-server[%.1000s:%.100s]", host, port);
}

bool is_rpc_server(void) {
    pthread_once(&once, read_command);
    return serves;
}

static void declare(struct device *device) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int devices;
    pthread_mutex_lock(&lock);
    if (device->number == NO_STAGE) {
        struct spool_stage stage = {
            .memory_bytes = SPOOL_UNKNOWN, .stage = SPOOL_UNKNOWN, .rank = SPOOL_UNKNOWN, .ordinal = devices++,
            .layer_begin = SPOOL_UNKNOWN, .layer_end = SPOOL_UNKNOWN, .device = stage_name, .capability = ""};
        device->number = spool_declare_stage(&stage);
    }
    pthread_mutex_unlock(&lock);
}

int compute_for_client(struct device *device, ggml_object backend, ggml_object graph) {
    declare(device);
    struct spool_span span = {
        .step = SPOOL_UNKNOWN, .microbatch = SPOOL_UNKNOWN, .bytes = SPOOL_UNKNOWN, .begin_ns = spool_now(),
        .tokens = SPOOL_UNKNOWN, .prefix = SPOOL_UNKNOWN, .stage = (uint16_t)device->number,
        .peer = SPOOL_UNKNOWN, .kind = SPOOL_FORWARD, .phase = SPOOL_PHASE_UNKNOWN, .clock = SPOOL_HOST_CLOCK};
    layers_of_split(graph, &span.layer_begin, &span.layer_end);
    struct spool_place place = spool_open_span(&span);
    int status = device->real.compute(backend, graph);
    /* The server waits next; a device that computes meanwhile is done when that returns. */
    device->forward = span;
    device->forward_place = place;
    if (device->is_host)
        forward_is_over(device);
    return status;
}
