/* Writes the spool format (docs/spool-format.md) from C or C++: events that outlive their process.
 *
 * An event takes no lock and makes no system call, from however many threads; only the one that finds
 * a file full opens the next. Nothing is ever reported to the caller: what cannot be written is counted
 * in the file. A process opens its first file with its first event, so one without events leaves none.
 *
 * Times are CLOCK_MONOTONIC nanoseconds, texts UTF-8, -1 is a number that is not known.
 */
#ifndef BUBBLESCOPE_SPOOL_H
#define BUBBLESCOPE_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SPOOL_UNKNOWN (-1)
#define SPOOL_SLOT 64
#define SPOOL_LONGEST_NAME 1024
#define SPOOL_LONGEST_TEXT 65535

enum spool_type { SPOOL_VOID, SPOOL_SPAN, SPOOL_STAGE, SPOOL_TEXT, SPOOL_FACT, SPOOL_REQUEST, SPOOL_INSTANT,
                  SPOOL_COUNTER, SPOOL_ACTIVITY, SPOOL_LAUNCHES };
enum spool_kind { SPOOL_FORWARD, SPOOL_EMBED, SPOOL_HEAD, SPOOL_SAMPLE, SPOOL_RECV, SPOOL_SEND, SPOOL_COPY,
                  SPOOL_SPLIT, SPOOL_SCHEDULE, SPOOL_SYNC, SPOOL_LAYER, SPOOL_ATTENTION, SPOOL_SAVE,
                  SPOOL_RESTORE, SPOOL_KINDS };
enum spool_phase { SPOOL_PREFILL, SPOOL_DECODE, SPOOL_MIXED, SPOOL_PHASE_UNKNOWN, SPOOL_PHASES };
enum spool_clock { SPOOL_DEVICE_CLOCK, SPOOL_HOST_CLOCK, SPOOL_CLOCKS };
enum spool_event { SPOOL_ARRIVED = 1, SPOOL_FIRST_TOKEN, SPOOL_ENDED };

/* A span as it stands in its slot. The writer fills in type and state. */
struct spool_span {
    int64_t step, microbatch, bytes, begin_ns, end_ns;
    int32_t tokens, prefix;
    int16_t layer_begin, layer_end; /* half open */
    uint16_t stage;                 /* as spool_declare_stage returned it */
    int16_t peer;                   /* position of the other stage in the pipeline */
    uint8_t kind, phase, clock, unused[3], type, state;
};

/* A stage: its position in the pipeline, and the device that runs it. */
struct spool_stage {
    int64_t memory_bytes;
    int32_t stage, rank, ordinal, layer_begin, layer_end;
    const char *device, *capability; /* "" where not known */
};

/* A text that an event refers to: its number goes to this offset of the slot, as u32. */
struct spool_text {
    size_t offset;
    const char *text;
};

/* Where an open span stands. */
struct spool_place {
    void *file;
    uint32_t offset, generation;
};

/* Whether the environment asks for a recording; to be called once, before anything else. */
bool spool_start(void);

int64_t spool_now(void);

/* Declares a stage; returns its number for spans, instants and counters, or -1 if there are too many. */
int spool_declare_stage(const struct spool_stage *stage);

/* Tells a fact about the run, `json` being its value. The last one told counts. */
void spool_fact(const char *name, const char *json);

/* A span that is over. */
void spool_put_span(const struct spool_span *span);

/* A span that begins: microbatch, begin_ns, stage, peer and kind are known; the rest with its end. */
struct spool_place spool_open_span(const struct spool_span *span);
void spool_close_span(struct spool_place place, const struct spool_span *span);

void spool_request(const char *name, int64_t time_ns, int64_t tokens, enum spool_event event, bool warmup);
void spool_instant(const char *name, int64_t time_ns, int stage);
void spool_counter(const char *name, int64_t time_ns, double value, int stage);

/* An event of any type: 62 bytes as the format lays them out, and the texts that they refer to. */
void spool_put(uint8_t type, const void *slot, const struct spool_text *texts, size_t count);

/* Counts events that could not be told because their values did not fit. */
void spool_refused(uint64_t count);

#ifdef __cplusplus
}
#endif
#endif
