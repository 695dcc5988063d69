/* A process that uses the stubbed CUDA from several threads at once while the injection flushes. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

int InitializeInjection(void);
uint32_t bubblescope_position(void);
uint32_t stub_kernel(const char *name, uint32_t device, uint32_t stream, uint64_t begin, uint64_t end,
                     uint32_t graph, uint32_t of_launch);

enum { THREADS = 4, KERNELS = 5000 };

static void *launch(void *data) {
    uint32_t stream = *(const uint32_t *)data;
    for (uint32_t i = 0; i < KERNELS; i++) {
        char name[32];
        snprintf(name, sizeof name, "_Z5step%ui", i % 10);
        uint32_t before = bubblescope_position();
        uint32_t launched = stub_kernel(name, stream % 2, stream, 1 + i, 2 + i, 0, 0);
        if (!(before < launched))
            return data; /* not NULL: seen by main */
        if (i % 500 == 0)
            usleep(1000);
    }
    return NULL;
}

int main(void) {
    InitializeInjection();
    pthread_t threads[THREADS];
    uint32_t numbers[THREADS];
    int failed = 0;
    for (uint32_t i = 0; i < THREADS; i++) {
        numbers[i] = i;
        pthread_create(&threads[i], NULL, launch, &numbers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        void *wrong = NULL;
        pthread_join(threads[i], &wrong);
        failed += wrong != NULL;
    }
    return failed;
}
