/* Stands in for the functions of llama.cpp that copy the state of a sequence between devices and host memory. A
 * server saves prompts by them, and a program its checkpoints; what for, they do not say. */
#include "ggml/state.h"
#include "ggml/forward.h"
#include "ggml/stand_in.h"
#include "ggml/ubatch.h"

#include <errno.h>

/* More than 0 within a copy: the older functions call the newer ones. */
static _Thread_local int copying;
static _Thread_local struct host_work copy;

/* Whose size was asked for, and since when: room in host memory is made for it next, which takes longer than the
 * copy itself where the memory is new. Of several contexts the first, as their copies follow in that order. */
static _Thread_local struct {
    ggml_object context;
    int32_t sequence;
    int64_t since_ns;
} asked;

bool state_is_copied(void) {
    return copying > 0;
}

void state_forget(void) {
    if (copying > 0)
        host_work_drop(&copy);
    copying = 0;
    asked.context = NULL;
}

static void ask(ggml_object context, int32_t sequence) {
    if (copying > 0 || (asked.context != NULL && asked.context != context))
        return;
    asked.context = context;
    asked.sequence = sequence;
    asked.since_ns = spool_now();
}

static void begin_copy(enum spool_kind kind) {
    sync_begin(); /* waiting for the devices is part of it and no span of its own */
    if (copying++ == 0)
        copy = host_work_begin(NULL, kind);
}

/* A copy of nothing, as one that failed is, is left out. */
static void end_copy(int64_t since_ns, size_t bytes) {
    int before = errno;
    sync_end(NULL, INT64_MAX);
    if (copying > 0 && --copying == 0) {
        if (since_ns > 0)
            copy.span.begin_ns = since_ns;
        if (bytes > 0)
            host_work_end(&copy, (int64_t)bytes);
        else
            host_work_drop(&copy);
    }
    errno = before;
}

static void end_save(ggml_object context, int32_t sequence, size_t bytes) {
    bool was_asked = copying == 1 && asked.context == context && asked.sequence == sequence;
    end_copy(was_asked ? asked.since_ns : 0, bytes);
    if (was_asked)
        asked.context = NULL;
}

OURS size_t llama_state_seq_get_size(ggml_object context, int32_t sequence);
OURS size_t llama_state_seq_get_size(ggml_object context, int32_t sequence) {
    REAL(llama_state_seq_get_size);
    ask(context, sequence);
    return real(context, sequence);
}

OURS size_t llama_state_seq_get_size_ext(ggml_object context, int32_t sequence, uint32_t flags);
OURS size_t llama_state_seq_get_size_ext(ggml_object context, int32_t sequence, uint32_t flags) {
    REAL(llama_state_seq_get_size_ext);
    ask(context, sequence);
    return real(context, sequence, flags);
}

OURS size_t llama_state_seq_get_data(ggml_object context, uint8_t *into, size_t size, int32_t sequence);
OURS size_t llama_state_seq_get_data(ggml_object context, uint8_t *into, size_t size, int32_t sequence) {
    REAL(llama_state_seq_get_data);
    begin_copy(SPOOL_SAVE);
    size_t bytes = real(context, into, size, sequence);
    end_save(context, sequence, bytes);
    return bytes;
}

OURS size_t llama_state_seq_get_data_ext(ggml_object context, uint8_t *into, size_t size, int32_t sequence,
                                         uint32_t flags);
OURS size_t llama_state_seq_get_data_ext(ggml_object context, uint8_t *into, size_t size, int32_t sequence,
                                         uint32_t flags) {
    REAL(llama_state_seq_get_data_ext);
    begin_copy(SPOOL_SAVE);
    size_t bytes = real(context, into, size, sequence, flags);
    end_save(context, sequence, bytes);
    return bytes;
}

OURS size_t llama_state_seq_set_data(ggml_object context, const uint8_t *from, size_t size, int32_t sequence);
OURS size_t llama_state_seq_set_data(ggml_object context, const uint8_t *from, size_t size, int32_t sequence) {
    REAL(llama_state_seq_set_data);
    begin_copy(SPOOL_RESTORE);
    size_t bytes = real(context, from, size, sequence);
    end_copy(0, bytes);
    return bytes;
}

OURS size_t llama_state_seq_set_data_ext(ggml_object context, const uint8_t *from, size_t size, int32_t sequence,
                                         uint32_t flags);
OURS size_t llama_state_seq_set_data_ext(ggml_object context, const uint8_t *from, size_t size, int32_t sequence,
                                         uint32_t flags) {
    REAL(llama_state_seq_set_data_ext);
    begin_copy(SPOOL_RESTORE);
    size_t bytes = real(context, from, size, sequence, flags);
    end_copy(0, bytes);
    return bytes;
}
