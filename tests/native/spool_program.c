/* Writes a spool as the tests ask for it: spool_program MODE [NUMBER]. */
#include "spool.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 8 };

static struct spool_span forward(int64_t microbatch) {
    return (struct spool_span){
        .step = 5, .microbatch = microbatch, .bytes = SPOOL_UNKNOWN, .begin_ns = spool_now(),
        .end_ns = spool_now(), .tokens = 512, .prefix = 1024, .layer_begin = 0, .layer_end = 4, .stage = 0,
        .peer = SPOOL_UNKNOWN, .kind = SPOOL_FORWARD, .phase = SPOOL_PREFILL, .clock = SPOOL_HOST_CLOCK};
}

static void declare(void) {
    struct spool_stage stage = {.memory_bytes = 1 << 30, .stage = 0, .rank = 0, .ordinal = 3, .layer_begin = 0,
                                .layer_end = 4, .device = "CUDA0", .capability = "9.0"};
    if (spool_declare_stage(&stage) != 0)
        abort();
}

static void write_everything(void) {
    char text[201];
    memset(text, 'x', 200);
    text[0] = text[199] = '"';
    text[200] = 0;
    spool_fact("engine", "\"wrong\"");
    spool_fact("engine", "\"llama.cpp\"");
    spool_fact("a long one", text);
    spool_request("r1", 1000, 77, SPOOL_ARRIVED, false);
    spool_request("r1", 2000, SPOOL_UNKNOWN, SPOOL_FIRST_TOKEN, false);
    spool_request("r1", 3000, 8, SPOOL_ENDED, false);
    spool_instant("graph reused", 4000, 0);
    spool_counter("queue", 5000, 2.5, 0);
    struct spool_span span = {.step = 5, .microbatch = 9, .bytes = 4096, .begin_ns = 100, .end_ns = 250,
                              .tokens = 512, .prefix = 1024, .layer_begin = 0, .layer_end = 4, .stage = 0,
                              .peer = 1, .kind = SPOOL_COPY, .phase = SPOOL_PREFILL, .clock = SPOOL_DEVICE_CLOCK};
    spool_put_span(&span);
    struct spool_place place = spool_open_span(&span);
    span.end_ns = 300;
    spool_close_span(place, &span);
    span.microbatch = 10;
    spool_open_span(&span);
}

/* Three spans that cannot be: they end before they begin, are of no kind, of no stage. */
static void write_refused(void) {
    struct spool_span span = forward(0);
    span.end_ns = span.begin_ns - 1;
    spool_put_span(&span);
    span = forward(0);
    span.kind = SPOOL_KINDS;
    spool_put_span(&span);
    span = forward(0);
    span.stage = 7;
    spool_close_span(spool_open_span(&span), &span);
}

static int per_thread;

static void *write_from_thread(void *argument) {
    int number = (int)(intptr_t)argument;
    for (int i = 0; i < per_thread; i++) {
        char name[32];
        snprintf(name, sizeof name, "instant %d", i % 50);
        struct spool_span span = forward((int64_t)number * per_thread + i);
        struct spool_place place = spool_open_span(&span);
        spool_instant(name, spool_now(), 0);
        span.end_ns = spool_now();
        spool_close_span(place, &span);
    }
    return NULL;
}

static void write_from_threads(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, write_from_thread, (void *)(intptr_t)i) != 0)
            abort();
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* The parent writes 0 and 2, the child 1; the span that the parent began is not the child's to end. */
static void write_and_fork(void) {
    struct spool_span begun = forward(0), other;
    struct spool_place place = spool_open_span(&begun);
    pid_t child = fork();
    if (child == 0) {
        spool_close_span(place, &begun);
        other = forward(1);
        spool_put_span(&other);
        return;
    }
    waitpid(child, NULL, 0);
    spool_close_span(place, &begun);
    other = forward(2);
    spool_put_span(&other);
}

int main(int count, char **words) {
    const char *mode = count > 1 ? words[1] : "";
    long number = count > 2 ? atol(words[2]) : 0;
    bool records = spool_start();
    if (strcmp(mode, "idle") == 0)
        return records ? 0 : 3;
    declare();
    if (strcmp(mode, "everything") == 0)
        write_everything();
    else if (strcmp(mode, "refused") == 0)
        write_refused();
    else if (strcmp(mode, "threads") == 0) {
        per_thread = (int)number;
        write_from_threads();
    } else if (strcmp(mode, "fork") == 0)
        write_and_fork();
    else if (strcmp(mode, "killed") == 0) {
        write_from_thread((per_thread = (int)number, (void *)0));
        raise(SIGKILL);
    }
    return 0;
}
