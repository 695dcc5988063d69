/* The last errors of ggml and llama.cpp, kept in case the process dies of them. What prints them still does. */
#include "ggml/last_words.h"
#include "ggml/json.h"
#include "ggml/stand_in.h"
#include "spool.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Of one process so many of the first errors are kept, and of the last; after a burst one a second. */
enum { MOST_FIRST = 8, MOST_LAST = 8, BURST = 32, LONGEST = 4000, ERROR_LEVEL = 4 };
static const int64_t PAUSE_NS = 1000000000;

static bool keeps;

void last_words_keep(void) {
    keeps = true;
}

typedef void (*log_function)(int level, const char *text, void *data);

static void tell(const char *text) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int64_t told, next_ns;
    static struct json json;
    if (!keeps || pthread_mutex_trylock(&lock) != 0) /* nobody waits for this */
        return;
    if (told < BURST || spool_now() >= next_ns) {
        char name[64];
        int number = (int)(told < MOST_FIRST ? told : MOST_FIRST + told % MOST_LAST);
        snprintf(name, sizeof name, "last_words:%d:ggml:%d", (int)getpid(), number);
        size_t length = strlen(text);
        json = json_begin(0);
        json_add_text(&json, length > LONGEST ? text + length - LONGEST : text);
        spool_fact(name, json_end(&json));
        told++;
        next_ns = spool_now() + PAUSE_NS;
    }
    pthread_mutex_unlock(&lock);
}

/* A program may ask for the function that is set, set one that calls it, and set it again. So each that was
 * ever set is kept, and where there is no room left for one it is passed on as it is. */
enum { MOST_LOGGERS = 64 };

static struct logger {
    log_function function;
    void *data;
} loggers[MOST_LOGGERS];

static void log_and_tell(int level, const char *text, void *data) {
    const struct logger *logger = data;
    if (level == ERROR_LEVEL && text != NULL && text[0] != 0)
        tell(text);
    logger->function(level, text, logger->data);
}

/* What stands for a function and its data; NULL where it is to be passed on as it is, since there is none, since
 * llama.cpp passes on to ggml what it was given itself, or since it is one of ours that is set again. */
static struct logger *logger_for(log_function function, void *data) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int count;
    struct logger *found = NULL;
    if (function == NULL || function == log_and_tell)
        return NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < count && found == NULL; i++)
        if (loggers[i].function == function && loggers[i].data == data)
            found = &loggers[i];
    if (found == NULL && count < MOST_LOGGERS) {
        found = &loggers[count++];
        *found = (struct logger){function, data};
    }
    pthread_mutex_unlock(&lock);
    return found;
}

OURS void ggml_log_set(log_function function, void *data);
OURS void ggml_log_set(log_function function, void *data) {
    REAL(ggml_log_set);
    struct logger *logger = logger_for(function, data);
    if (logger != NULL)
        real(log_and_tell, logger);
    else
        real(function, data);
}

OURS void llama_log_set(log_function function, void *data);
OURS void llama_log_set(log_function function, void *data) {
    REAL(llama_log_set);
    struct logger *logger = logger_for(function, data);
    if (logger != NULL)
        real(log_and_tell, logger);
    else
        real(function, data);
}

OURS __attribute__((noreturn)) void ggml_abort(const char *file, int line, const char *format, ...);
OURS __attribute__((noreturn)) void ggml_abort(const char *file, int line, const char *format, ...) {
    REAL(ggml_abort);
    char message[LONGEST], where[LONGEST + 512];
    va_list values;
    va_start(values, format);
    vsnprintf(message, sizeof message, format, values);
    va_end(values);
    snprintf(where, sizeof where, "%.400s:%d: %s", file, line, message);
    tell(where);
    real(file, line, "%s", message);
    __builtin_unreachable();
}
