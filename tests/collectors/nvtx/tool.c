/* A small NVTX tool for tests: writes what arrives, a line each, to the file that NVTX_TOOL_LOG names.
 *
 * Loaded by NVTX itself through NVTX_INJECTION64_PATH, as Nsight Systems is. Only what it needs of
 * NVTX's interface for tools is declared here.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXPORT_CALLBACKS = 1, MODULE_CORE2 = 5, REGISTERED = 3, PAYLOAD_INT64 = 2 };
enum { RANGE_START = 2, RANGE_END = 3, REGISTER_STRING = 10, DOMAIN_CREATE = 12 };
#define PAYLOAD_EXTENDED ((int32_t)0xDFBD0009)

typedef void (*function)(void);
typedef struct {
    size_t size;
    int (*module_functions)(int module, function ***table, unsigned int *count);
} callbacks;
typedef struct {
    uint16_t version, size;
    uint32_t category;
    int32_t colour_type;
    uint32_t colour;
    int32_t payload_type, payload_count;
    uint64_t payload;
    int32_t message_type;
    const char *message;
} event;
typedef struct {
    uint64_t schema;
    size_t size;
    const unsigned char *bytes;
} extended;

static FILE *log_file;
static uint64_t ranges;

static char *copied(const char *text) { return strdup(text == NULL ? "" : text); }

static void *domain_create(const char *name) { return copied(name); }

static void *register_string(const char *domain, const char *text) {
    (void)domain;
    return copied(text);
}

static uint64_t range_start(const char *domain, const event *given) {
    fprintf(log_file, "start %llu|%s|%s|", (unsigned long long)++ranges, domain,
            given->message_type == REGISTERED ? given->message : "");
    if (given->payload_type == PAYLOAD_INT64) {
        fprintf(log_file, "%lld", (long long)given->payload);
    } else if (given->payload_type == PAYLOAD_EXTENDED) {
        const extended *payload = (const extended *)(uintptr_t)given->payload;
        for (size_t at = 0; at < payload->size; at++) {
            fprintf(log_file, "%02x", payload->bytes[at]);
        }
    }
    fprintf(log_file, "\n");
    fflush(log_file);
    return ranges;
}

static void range_end(const char *domain, uint64_t range) {
    fprintf(log_file, "end %llu|%s\n", (unsigned long long)range, domain);
    fflush(log_file);
}

int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t)) {
    const callbacks *given = export_table(EXPORT_CALLBACKS);
    const char *path = getenv("NVTX_TOOL_LOG");
    function **table = NULL;
    unsigned int count = 0;
    log_file = path == NULL ? NULL : fopen(path, "a");
    if (given == NULL || log_file == NULL || !given->module_functions(MODULE_CORE2, &table, &count)
        || count <= DOMAIN_CREATE) {
        return 0;
    }
    *table[RANGE_START] = (function)range_start;
    *table[RANGE_END] = (function)range_end;
    *table[REGISTER_STRING] = (function)register_string;
    *table[DOMAIN_CREATE] = (function)domain_create;
    return 1;
}
