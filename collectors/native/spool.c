#define _GNU_SOURCE
#include "spool.h"
#include "room.h"
#include "spool_file.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* A file is at most a 64th of the whole, so that dropping the oldest one loses little. */
enum { SHARE = 64, SMALLEST = 16 << 10, FIRST = 64 << 10, LARGEST = 4 << 20, DEFAULT_MAX_BYTES = 256 << 20 };
enum { FILES = 32, MOST_STAGES = 1024, MOST_FACTS = 256, COUNTS = 3, TRIES = 8 };
/* How long an event may wait for another thread that opens the next file; when to try a disk again. */
static const int64_t PATIENCE_NS = 10000000, RETRY_NS = 1000000000;

enum { DROPPED, UNWRITTEN, REFUSED };

struct fact {
    int64_t time_ns;
    char *name, *json;
};

static struct {
    char *folder, process[32];
    int64_t max_bytes, keep_ns, retry_ns;
    /* Rises with each fork: what was begun before is the parent's. */
    uint32_t generation;
    /* Never freed, so that a thread may look at one that was just retired. NULL: no file is open. */
    struct spool_file files[FILES], *current;
    uint32_t next_number;
    uint64_t counts[COUNTS];
    pthread_mutex_t lock; /* held to open a file and to declare */
    struct spool_stage stages[MOST_STAGES];
    uint32_t stage_count;
    struct fact facts[MOST_FACTS];
    uint32_t fact_count;
} spool;

int64_t spool_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static int64_t positive(const char *text) {
    char *end;
    long long value = text != NULL ? strtoll(text, &end, 10) : 0;
    return value > 0 && *end == 0 ? value : 0;
}

/* Begins anew, as a forked child must: another process, with files of its own. */
static void start(void) {
    uint32_t random = 0;
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != (ssize_t)sizeof random)
        random = (uint32_t)spool_now();
    snprintf(spool.process, sizeof spool.process, "%d-%08x", (int)getpid(), random);
    spool.current = NULL;
    spool.next_number = 0;
    spool.retry_ns = 0;
    memset(spool.counts, 0, sizeof spool.counts);
    pthread_mutex_init(&spool.lock, NULL);
}

static void before_fork(void) {
    pthread_mutex_lock(&spool.lock); /* what is declared must not be half there in the child */
}

static void parent_after_fork(void) {
    pthread_mutex_unlock(&spool.lock);
}

/* The parent's mappings would hold its files as if they were still written to. */
static void child_after_fork(void) {
    spool.generation++;
    for (int i = 0; i < FILES; i++) {
        struct spool_file *file = &spool.files[i];
        if (file->bytes != NULL)
            file_unmap(file);
        file->life = FILE_FREE;
        file->users = 0;
    }
    start();
}

bool spool_start(void) {
    const char *folder = getenv("BUBBLESCOPE_SPOOL");
    if (folder == NULL || *folder == 0 || (spool.folder = strdup(folder)) == NULL)
        return false;
    int64_t most = positive(getenv("BUBBLESCOPE_SPOOL_MAX_BYTES"));
    int64_t keep = positive(getenv("BUBBLESCOPE_SPOOL_KEEP_SECONDS"));
    spool.max_bytes = most > 0 ? most : DEFAULT_MAX_BYTES;
    spool.keep_ns = keep > 0 && keep < INT32_MAX ? keep * INT64_C(1000000000) : 0;
    start();
    return pthread_atfork(before_fork, parent_after_fork, child_after_fork) == 0;
}

/* The file that is written to now, held until it is released; NULL if there is none. */
static struct spool_file *held(void) {
    for (;;) {
        struct spool_file *file = __atomic_load_n(&spool.current, __ATOMIC_SEQ_CST);
        if (file == NULL)
            return NULL;
        __atomic_fetch_add(&file->users, 1, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&spool.current, __ATOMIC_SEQ_CST) == file)
            return file;
        __atomic_fetch_sub(&file->users, 1, __ATOMIC_SEQ_CST); /* the mapping was not looked at */
    }
}

/* Lets go of a file. A retired one goes with its last user; who still finds it current afterwards has
 * counted itself before it was retired, and so is seen by the second look at `users`. */
static void release(struct spool_file *file) {
    if (__atomic_sub_fetch(&file->users, 1, __ATOMIC_SEQ_CST) != 0)
        return;
    uint32_t life = __atomic_load_n(&file->life, __ATOMIC_SEQ_CST);
    if (life % FILE_LIVES != FILE_RETIRED || __atomic_load_n(&file->users, __ATOMIC_SEQ_CST) != 0 ||
        !__atomic_compare_exchange_n(&file->life, &life, life + 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        return;
    file_unmap(file);
    __atomic_add_fetch(&file->life, 1, __ATOMIC_SEQ_CST);
}

static const uint32_t count_at[COUNTS] = {DROPPED_AT, DROPPED_AT + 8, DROPPED_AT + 16};

static void count(int what, uint64_t more) {
    uint64_t total = __atomic_add_fetch(&spool.counts[what], more, __ATOMIC_RELAXED);
    struct spool_file *file = held();
    if (file != NULL) {
        file_count(file, count_at[what], total);
        release(file);
    }
}

/* Writes one event and the texts that it refers to; returns its offset, 0 if there is no room. */
static uint32_t put(struct spool_file *file, uint8_t type, const void *bytes, const struct spool_text *texts,
                    size_t text_count, uint8_t state) {
    unsigned char slot[SLOT_SIZE];
    memcpy(slot, bytes, TYPE_AT);
    for (size_t i = 0; i < text_count; i++) {
        uint32_t number;
        size_t longest = type == SPOOL_FACT ? SPOOL_LONGEST_TEXT : SPOOL_LONGEST_NAME;
        if (!file_text(file, texts[i].text, longest, &number))
            return 0;
        memcpy(slot + texts[i].offset, &number, sizeof number);
    }
    uint32_t offset = file_take(file, 1);
    if (offset != 0)
        file_fill(file, offset, slot, type, state);
    return offset;
}

static bool put_stage(struct spool_file *file, uint32_t number) {
    const struct spool_stage *stage = &spool.stages[number];
    struct {
        int64_t memory_bytes;
        int32_t stage, rank, ordinal, layer_begin, layer_end;
        uint32_t device, capability;
        uint16_t number;
        uint8_t unused[26];
    } slot = {stage->memory_bytes, stage->stage, stage->rank, stage->ordinal, stage->layer_begin,
              stage->layer_end, 0, 0, (uint16_t)number, {0}};
    const struct spool_text texts[] = {{28, stage->device}, {32, stage->capability}};
    return put(file, SPOOL_STAGE, &slot, texts, 2, SPOOL_COMPLETE) != 0;
}

static bool put_fact(struct spool_file *file, const struct fact *fact) {
    struct {
        int64_t time_ns;
        uint8_t unused[56];
    } slot = {fact->time_ns, {0}};
    const struct spool_text texts[] = {{8, fact->name}, {12, fact->json}};
    return put(file, SPOOL_FACT, &slot, texts, 2, SPOOL_COMPLETE) != 0;
}

/* The next file, smaller than it should be if the disk is nearly full; NULL if there is no room. */
static struct spool_file *created(void) {
    struct spool_file *file = spool.files;
    while (__atomic_load_n(&file->life, __ATOMIC_SEQ_CST) % FILE_LIVES != FILE_FREE)
        if (++file == spool.files + FILES)
            return NULL;
    int64_t share = spool.max_bytes / SHARE / SMALLEST * SMALLEST, size = LARGEST;
    if (share < size)
        size = share > SMALLEST ? share : SMALLEST;
    if (spool.next_number < 6 && FIRST << spool.next_number < size)
        size = FIRST << spool.next_number;
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    int64_t now_ns = wall.tv_sec * INT64_C(1000000000) + wall.tv_nsec;
    int64_t oldest_ns = spool.keep_ns > 0 ? now_ns - spool.keep_ns : 0;
    /* Twice as much: another process may be opening one of its own right now. */
    uint64_t dropped = room_make(spool.folder, 2 * size, spool.max_bytes, oldest_ns);
    __atomic_add_fetch(&spool.counts[DROPPED], dropped, __ATOMIC_RELAXED);
    if (!file_create(file, spool.folder, spool.process, spool.next_number, (uint32_t)size) &&
        !file_create(file, spool.folder, spool.process, spool.next_number, SMALLEST))
        return NULL;
    spool.next_number++;
    bool fits = true;
    for (uint32_t i = 0; i < spool.stage_count && fits; i++)
        fits = put_stage(file, i);
    for (uint32_t i = 0; i < spool.fact_count && fits; i++)
        fits = put_fact(file, &spool.facts[i]);
    return file;
}

/* Opens the file after a full one, unless another thread has; the lock is held. */
static void open_next(struct spool_file *full) {
    if (spool.current != full || spool_now() < spool.retry_ns)
        return;
    struct spool_file *file = created();
    if (file == NULL) {
        spool.retry_ns = spool_now() + RETRY_NS;
        return;
    }
    __atomic_add_fetch(&file->life, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&spool.current, file, __ATOMIC_SEQ_CST);
    for (int what = 0; what < COUNTS; what++)
        file_count(file, count_at[what], __atomic_load_n(&spool.counts[what], __ATOMIC_RELAXED));
    if (full != NULL) {
        __atomic_fetch_add(&full->users, 1, __ATOMIC_SEQ_CST);
        __atomic_add_fetch(&full->life, 1, __ATOMIC_SEQ_CST);
        release(full);
    }
}

/* Goes on to the file after a full one and holds it; NULL if there is none. Lets go of the full one. */
static struct spool_file *next_file(struct spool_file *full) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += PATIENCE_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    bool locked = pthread_mutex_timedlock(&spool.lock, &until) == 0;
    if (locked) {
        open_next(full);
        pthread_mutex_unlock(&spool.lock);
    }
    if (full != NULL)
        release(full);
    return locked ? held() : NULL;
}

/* Writes one event into whatever file has room; returns that file, held, or NULL. */
static struct spool_file *append(uint8_t type, const void *bytes, const struct spool_text *texts,
                                 size_t text_count, uint8_t state, uint32_t *offset) {
    struct spool_file *file = held();
    /* Others may have filled the next file before we come to write into it. */
    for (int tries = 0; tries < TRIES; tries++) {
        *offset = file != NULL ? put(file, type, bytes, texts, text_count, state) : 0;
        if (*offset != 0)
            return file;
        file = next_file(file);
    }
    if (file != NULL)
        release(file);
    count(UNWRITTEN, 1);
    return NULL;
}

void spool_put(uint8_t type, const void *slot, const struct spool_text *texts, size_t text_count) {
    uint32_t offset;
    struct spool_file *file = append(type, slot, texts, text_count, SPOOL_COMPLETE, &offset);
    if (file != NULL)
        release(file);
}

void spool_refused(uint64_t events) {
    count(REFUSED, events);
}

int spool_declare_stage(const struct spool_stage *stage) {
    int number = -1;
    pthread_mutex_lock(&spool.lock);
    struct spool_stage kept = *stage;
    kept.device = strdup(stage->device);
    kept.capability = strdup(stage->capability);
    if (spool.stage_count < MOST_STAGES && kept.device != NULL && kept.capability != NULL) {
        number = (int)spool.stage_count;
        spool.stages[number] = kept;
        __atomic_store_n(&spool.stage_count, (uint32_t)number + 1, __ATOMIC_RELEASE);
        struct spool_file *file = held();
        /* A new file begins with all of them, now or when there is room again. */
        if (file == NULL || !put_stage(file, (uint32_t)number))
            open_next(file);
        if (file != NULL)
            release(file);
    } else {
        free((char *)kept.device);
        free((char *)kept.capability);
    }
    pthread_mutex_unlock(&spool.lock);
    if (number < 0)
        spool_refused(1);
    return number;
}

/* Where the fact of that name is kept, or is to be; NULL if they are too many. */
static struct fact *fact_named(const char *name) {
    for (uint32_t i = 0; i < spool.fact_count; i++)
        if (strcmp(spool.facts[i].name, name) == 0)
            return &spool.facts[i];
    char *own = spool.fact_count < MOST_FACTS ? strdup(name) : NULL;
    if (own == NULL)
        return NULL;
    spool.facts[spool.fact_count] = (struct fact){0, own, NULL};
    return &spool.facts[spool.fact_count++];
}

void spool_fact(const char *name, const char *json) {
    pthread_mutex_lock(&spool.lock);
    char *value = strlen(json) <= SPOOL_LONGEST_TEXT ? strdup(json) : NULL;
    struct fact *fact = value != NULL ? fact_named(name) : NULL;
    if (fact != NULL) {
        free(fact->json);
        fact->json = value;
        fact->time_ns = spool_now();
        struct spool_file *file = held();
        if (file == NULL || !put_fact(file, fact))
            open_next(file);
        if (file != NULL)
            release(file);
    } else {
        free(value);
    }
    pthread_mutex_unlock(&spool.lock);
    if (fact == NULL)
        spool_refused(1);
}

static bool fits(const struct spool_span *span) {
    return span->stage < __atomic_load_n(&spool.stage_count, __ATOMIC_ACQUIRE) && span->kind < SPOOL_KINDS &&
           span->begin_ns >= 0;
}

static bool fits_whole(const struct spool_span *span) {
    return fits(span) && span->end_ns >= span->begin_ns && span->phase < SPOOL_PHASES &&
           span->clock < SPOOL_CLOCKS;
}

void spool_put_span(const struct spool_span *span) {
    if (fits_whole(span))
        spool_put(SPOOL_SPAN, span, NULL, 0);
    else
        spool_refused(1);
}

struct spool_place spool_open_span(const struct spool_span *span) {
    struct spool_place place = {NULL, 0, spool.generation};
    if (!fits(span)) {
        spool_refused(1);
        return place;
    }
    place.file = append(SPOOL_SPAN, span, NULL, 0, SPOOL_OPEN, &place.offset); /* held until it is closed */
    return place;
}

void spool_close_span(struct spool_place place, const struct spool_span *span) {
    if (place.file == NULL || place.generation != spool.generation) /* the latter: begun before a fork */
        return;
    struct spool_file *file = place.file;
    static const unsigned char nothing[SLOT_SIZE];
    bool good = fits_whole(span);
    file_fill(file, place.offset, good ? (const void *)span : nothing, good ? SPOOL_SPAN : SPOOL_VOID,
              SPOOL_COMPLETE);
    release(file);
    if (!good)
        spool_refused(1);
}

void spool_request(const char *name, int64_t time_ns, int64_t tokens, enum spool_event event, bool warmup) {
    struct {
        int64_t time_ns, tokens;
        uint32_t name;
        uint8_t event, warmup, unused[42];
    } slot = {time_ns, tokens, 0, (uint8_t)event, warmup, {0}};
    const struct spool_text text = {16, name};
    spool_put(SPOOL_REQUEST, &slot, &text, 1);
}

void spool_instant(const char *name, int64_t time_ns, int stage) {
    struct {
        int64_t time_ns;
        uint32_t name;
        uint16_t stage;
        uint8_t unused[50];
    } slot = {time_ns, 0, (uint16_t)stage, {0}};
    const struct spool_text text = {8, name};
    spool_put(SPOOL_INSTANT, &slot, &text, 1);
}

void spool_counter(const char *name, int64_t time_ns, double value, int stage) {
    struct {
        int64_t time_ns;
        double value;
        uint32_t name;
        uint16_t stage;
        uint8_t unused[42];
    } slot = {time_ns, value, 0, (uint16_t)stage, {0}};
    const struct spool_text text = {16, name};
    spool_put(SPOOL_COUNTER, &slot, &text, 1);
}
