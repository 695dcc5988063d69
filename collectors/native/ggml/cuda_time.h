/* Events of CUDA's driver: when they happened, without waiting for them. */
#ifndef BUBBLESCOPE_GGML_CUDA_TIME_H
#define BUBBLESCOPE_GGML_CUDA_TIME_H

#include <stdbool.h>
#include <stdint.h>

struct cuda_clock;

/* "GPU-01234567-89ab-cdef-0123-456789abcdef" and what ends it. */
enum { CUDA_UUID = 41 };

/* The clock of the CUDA device that is the calling thread's current one; NULL if there is none. */
struct cuda_clock *cuda_clock_of_current_device(void);

/* By what name NVML knows that device; only where it has a clock. False if CUDA does not tell. */
bool cuda_uuid_of_current_device(char text[CUDA_UUID]);

/* An event that ggml's CUDA backend can record; NULL if CUDA makes none. */
void *cuda_event_new(struct cuda_clock *clock);

/* For the one thread that asks about events: makes the device its own. */
void cuda_enter(struct cuda_clock *clock);

/* Whether an event has happened. */
bool cuda_event_happened(void *event);

/* Its time on CLOCK_MONOTONIC; -1 if it cannot be told. */
int64_t cuda_event_time(struct cuda_clock *clock, void *event);

#endif
